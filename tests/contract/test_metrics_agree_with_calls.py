"""What the metrics of a node say is what its calls say, tier by tier."""

from collections.abc import Callable
from pathlib import Path

from kvtier.client import NodeClient
from kvtier.v1.block_pb2 import Medium
from kvtier.v1.tier_pb2 import Tier

from .conftest import Follow, Serve
from .scraping import Metrics, metrics_come_to, scrape
from .support import BLOCK_BYTES, Serving, blocks_of, cpu_tier, fs_tier, gpu_tier

METRICS = "127.0.0.1:0"
COUNTERS = {
    "loads": "loaded",
    "stores": "stored",
    "demotions": "demoted",
    "promotions": "promoted",
    "corruptions": "corrupt",
    "dropped": "dropped",
    "copies_failed": "copies_failed",
    "refused": "refused",
    "mismatched": "mismatched",
    "abandoned": "abandoned",
    "written_through": "written_through",
    "deferred": "deferred",
    "trimmed": "trimmed",
    "scrubbed": "scrubbed",
}
GAUGES: dict[str, Callable[[Tier], int]] = {
    "ready": lambda tier: tier.ready_blocks,
    "pending": lambda tier: tier.pending_blocks,
    "leased": lambda tier: tier.leased_blocks,
    "pinned": lambda tier: tier.pinned_blocks,
    "draining": lambda tier: tier.draining_blocks,
    "quarantined": lambda tier: tier.quarantined_blocks,
}


def address(node: Serving) -> str | None:
    return node.server.serving.observing.metrics_address


def check_tier(metrics: Metrics, tier: Tier) -> None:
    """Compare all that is told of a tier in both ways."""
    labels = {
        "tier": tier.name,
        "medium": Medium.Name(tier.medium).removeprefix("MEDIUM_").lower(),
    }
    for name, field in COUNTERS.items():
        told = metrics.value(f"kvtier_tier_{name}_total", **labels)
        assert told == getattr(tier.counters, field), name
    assert metrics.of("kvtier_tier_blocks", **labels) == {
        state: read(tier) for state, read in GAUGES.items()
    }
    assert metrics.value("kvtier_tier_capacity_bytes", **labels) == tier.capacity_bytes
    assert metrics.value("kvtier_tier_used_bytes", **labels) == tier.used_bytes
    assert metrics.total("kvtier_tier_removals_total", **labels) == tier.counters.removed


async def check_node(node: Serving) -> Metrics:
    """Compare all that is told of a node in both ways."""
    metrics, client = await scrape(address(node)), node.client
    for tier in await client.list_tiers():
        check_tier(metrics, tier)
    described = await client.get_node()
    assert metrics["kvtier_leases"] == described.leases
    assert metrics["kvtier_followers"] == described.followers
    assert metrics["kvtier_log_head_sequence"] == described.head.sequence
    assert metrics["kvtier_log_oldest_sequence"] == described.oldest_sequence
    assert metrics.value("kvtier_node_info", node_id=described.node_id) == 1
    assert metrics.value("kvtier_build_info", version=described.version) == 1
    return metrics


async def test_sums_over_three_nodes_are_what_their_tiers_tell(
    serve: Serve, tmp_path: Path
) -> None:
    """One block in two tiers, one in files, one nowhere: each tier of each node adds up."""
    gpu_and_cpu = [gpu_tier(4), cpu_tier(8)]
    files = [cpu_tier(4), fs_tier(8, tmp_path)]
    nodes = [
        await serve(*tiers, metrics_listen=METRICS) for tiers in (gpu_and_cpu, files, [cpu_tier(4)])
    ]
    await nodes[0].store("both", tier="gpu0")
    await nodes[0].store("both", tier="cpu0")
    await nodes[1].store("file", tier="fs0")

    told = [await check_node(node) for node in nodes]

    stored = sum(metrics.total("kvtier_tier_blocks", state="ready") for metrics in told)
    listed = [[b async for b in node.client.list_blocks()] for node in nodes]
    assert stored == sum(map(len, listed)) == 3
    assert told[0].of("kvtier_tier_stores_total", medium="gpu") == {"gpu0": 1}
    assert told[1].value("kvtier_tier_blocks", tier="fs0", medium="fs", state="ready") == 1
    assert told[2].total("kvtier_tier_blocks") == 0


async def test_what_happens_to_blocks_is_counted_by_its_reason(serve: Serve) -> None:
    """Evictions, demotions, deletions, clears and pins are what `ListTiers` makes of them."""
    node = await serve(gpu_tier(2, on_evict="cpu0"), cpu_tier(4), metrics_listen=METRICS)
    client = node.client
    await node.store("A", "B", tier="gpu0")
    await node.store("C", tier="gpu0")
    await node.store("D", "E", "F", "G", tier="cpu0")
    await client.delete(node.namespace, [blocks_of("D")], tiers=["cpu0"])
    await client.pin("cpu0", node.namespace, [blocks_of("E")])
    await node.load("E", "F", tier="cpu0")
    await client.clear("gpu0")

    metrics = await check_node(node)

    cpu = {"tier": "cpu0", "medium": "cpu"}
    removals = metrics.of("kvtier_tier_removals_total", **cpu)
    assert (removals["evicted"], removals["deleted"], removals["cleared"]) == (1, 1, 0)
    gpu = metrics.of("kvtier_tier_removals_total", tier="gpu0", medium="gpu")
    assert (gpu["demoted"], gpu["cleared"], gpu["evicted"]) == (1, 2, 0)
    assert metrics["kvtier_pins"] == 1
    assert metrics.value("kvtier_tier_leased_bytes", **cpu) == BLOCK_BYTES
    assert metrics.value("kvtier_tier_oldest_lease_seconds", **cpu) == 0


async def test_what_goes_for_want_of_room_is_demoted_or_dropped(serve: Serve) -> None:
    """A block that is below already is demoted; one that the tier below cannot take is evicted."""
    node = await serve(gpu_tier(1, on_evict="cpu0"), cpu_tier(1), metrics_listen=METRICS)
    await node.store("A", tier="cpu0")
    await node.client.prepare_load("cpu0", node.namespace, [blocks_of("A")])
    for block in ("A", "B", "C"):
        await node.store(block, tier="gpu0")

    metrics = await check_node(node)

    removals = metrics.of("kvtier_tier_removals_total", tier="gpu0", medium="gpu")
    assert {reason: count for reason, count in removals.items() if count} == {
        "demoted": 1,
        "evicted": 1,
    }
    assert metrics.value("kvtier_tier_dropped_total", tier="gpu0", medium="gpu") == 1


async def test_hits_and_misses_are_those_of_loads_and_reads(serve: Serve) -> None:
    """Each block counts as often as it is asked for; what a lookup asks for is counted apart."""
    node = await serve(cpu_tier(8), metrics_listen=METRICS)
    await node.store("A", "B")
    await node.look_up("A", "absent", "B")

    await node.load("A", "B", "absent")
    lease = await node.client.prepare_load("cpu0", node.namespace, [blocks_of("A", "A", "other")])
    node.clock.advance(2.0)

    metrics = await check_node(node)
    assert lease.results
    assert metrics.value("kvtier_tier_hits_total", tier="cpu0", medium="cpu") == 4
    assert metrics.value("kvtier_tier_loads_total", tier="cpu0", medium="cpu") == 3
    assert metrics.of("kvtier_misses_total") == {"absent": 2, "pending": 0, "recovering": 0}
    assert metrics["kvtier_lookup_blocks_total"] == 3
    assert metrics["kvtier_lookup_hits_total"] == 1
    assert metrics.value("kvtier_tier_oldest_lease_seconds", tier="cpu0", medium="cpu") == 2


async def test_a_block_that_could_be_brought_up_is_a_miss_that_is_pending(serve: Serve) -> None:
    """A load that promotes finds the block below, and not in the tier yet."""
    node = await serve(gpu_tier(2), cpu_tier(4), metrics_listen=METRICS)
    await node.store("A", tier="cpu0")

    await node.client.prepare_load(
        "gpu0", node.namespace, [blocks_of("A")], promote=True, wait=False
    )

    metrics = await scrape(address(node))
    assert metrics.of("kvtier_misses_total") == {"absent": 0, "pending": 1, "recovering": 0}
    assert metrics.total("kvtier_tier_hits_total") == 0


async def test_what_a_tier_may_still_find_is_a_miss_that_is_recovering(
    serve: Serve, tmp_path: Path
) -> None:
    """A tier that does not know yet what it holds says so of what it misses."""
    node = await serve(fs_tier(8, tmp_path), metrics_listen=METRICS)
    (tier,) = node.node.tiers
    tier.health.recovering = True

    await node.load("A", tier="fs0")

    metrics = await scrape(address(node))
    assert metrics.of("kvtier_misses_total")["recovering"] == 1
    states = metrics.of("kvtier_tier_state", tier="fs0", medium="fs")
    assert states == {"ready": 0, "recovering": 1, "read_only": 0, "silent": 0}
    assert metrics.value("kvtier_tier_recovered_ratio", tier="fs0", medium="fs") < 1


async def test_followers_resets_and_snapshots_are_counted(serve: Serve, follow: Follow) -> None:
    """A follower without a position costs a reset and a snapshot, and then keeps up."""
    node = await serve(cpu_tier(8), metrics_listen=METRICS)
    follower = await follow(node)
    await node.store("A", "B")
    await follower.settle()

    metrics = await metrics_come_to(
        address(node), lambda found: not found["kvtier_follower_lag_batches"]
    )

    assert metrics["kvtier_followers"] == 1
    assert metrics.of("kvtier_resets_total") == {
        "no_position": 1,
        "lagged": 0,
        "epoch_changed": 0,
        "compacted": 0,
        "ahead_of_head": 0,
    }
    assert metrics["kvtier_snapshots_total"] == 1
    assert metrics["kvtier_snapshots_in_progress"] == 0


async def test_a_node_that_drained_says_so(serve: Serve) -> None:
    """Its metrics can be had until its process is stopped."""
    node = await serve(cpu_tier(4), metrics_listen=METRICS)
    before = await metrics_come_to(address(node), lambda found: found["kvtier_ready"])

    await node.client.drain()

    after = await scrape(address(node))
    assert (before["kvtier_ready"], before["kvtier_draining"]) == (1, 0)
    assert (after["kvtier_ready"], after["kvtier_draining"]) == (0, 1)


async def test_nodes_of_one_process_count_for_themselves(serve: Serve) -> None:
    """What happens to one does not show in the other."""
    one = await serve(cpu_tier(4), metrics_listen=METRICS)
    other = await serve(cpu_tier(4), metrics_listen=METRICS)

    await one.store("A")

    for node, stored in ((one, 1), (other, 0)):
        metrics = await scrape(address(node))
        assert metrics.total("kvtier_tier_stores_total") == stored
        assert metrics.total("grpc_server_started_total", grpc_method="WriteBlocks") == stored


async def test_a_node_without_an_address_for_them_serves_none(serve: Serve) -> None:
    """Nothing listens, and no call is measured."""
    node = await serve(cpu_tier(4))

    assert address(node) is None
    async with NodeClient(node.endpoint) as client:
        assert (await client.get_node()).node_id == node.node.node_id
