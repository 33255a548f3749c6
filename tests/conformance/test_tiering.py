"""A primary with two secondaries behind it: who tells what, and what stays where."""

from collections.abc import AsyncIterator

import pytest

from kvtier.client import ExhaustedError
from kvtier.v1.result_pb2 import CopyResult
from tests.contract.managed import befriend, counting_pulls, holding_up
from tests.contract.support import (
    BLOCK_BYTES,
    blocks_of,
    cpu_tier,
    hash_set,
    payload,
    payloads,
    run,
    words,
)
from tests.waiting import until

from .cluster import Cluster, Told, clustered
from .conftest import Serve


@pytest.fixture(name="cluster")
async def _cluster(serve: Serve) -> AsyncIterator[Cluster]:
    """Three nodes of two blocks each."""
    nodes = [await serve(cpu_tier(2)) for _ in range(3)]
    async with clustered(nodes) as cluster:
        yield cluster


async def test_nobody_is_told_or_asked_before_a_store_is_complete(cluster: Cluster) -> None:
    """Then the primary tells it, and both secondaries copy it and tell it themselves."""
    proxy = cluster.proxy
    prepared = await proxy.prepare_store("cpu0", cluster.primary.namespace, [run(1)])
    await cluster.primary.client.write_blocks(prepared.lease, {0: payload(1)}, [BLOCK_BYTES])

    async with counting_pulls() as pulled:
        before = await cluster.results(1), await cluster.events(), list(pulled)
        await proxy.complete_store(prepared.lease, wait=True)

    assert before == (["HIT_PENDING"], [], [])
    assert pulled == [cluster.primary.endpoint] * 2
    assert await cluster.events() == [Told(name, "stored", (1,)) for name in ("P", "S1", "S2")]
    await cluster.is_quiet()


async def test_each_cascade_holds_its_own_pin_until_it_ends(cluster: Cluster) -> None:
    """Two cascades of the primary's blocks pin them twice, and the last one frees them."""
    leases, pinned = cluster.primary.node.leases, []
    async with holding_up(cluster.first) as one, holding_up(cluster.second) as two:
        await cluster.store(1, 2)
        for gate, left in ((None, 2), (two, 1), (one, 0)):
            if gate is not None:
                gate.set()
            await until(lambda n=left: len(leases) == n)  # type: ignore[misc]
            pinned.append((await cluster.primary.gauges()).get("leased"))

    assert pinned == [2, 2, None]
    await cluster.is_quiet()


async def test_events_come_primary_first_then_in_configured_order(cluster: Cluster) -> None:
    """The order of the nodes decides, not the order in which their copies ended."""
    async with holding_up(cluster.first) as gate:
        stored = await cluster.store(1, 2)
        await cluster.second.comes_to({"ready": 2})
        gate.set()
        await stored.cascade.wait()

    assert await cluster.events() == [
        Told("P", "stored", (1, 2)),
        Told("S1", "stored", (1, 2)),
        Told("S2", "stored", (1, 2)),
    ]


async def test_the_merge_leaves_each_nodes_numbers_alone(cluster: Cluster) -> None:
    """Within a node every message goes on where the one before it ended, in one epoch."""
    last: dict[str, tuple[int, int]] = {}

    for block in range(1, 6):
        await cluster.store(block, wait=True)
        for message in await cluster.take():
            here = last.setdefault(message.node_id, (message.epoch, message.after))
            assert (message.epoch, message.after) == here
            last[message.node_id] = (message.epoch, message.through)

    heads = [(await node.client.get_node()).head for node in cluster.nodes]
    assert {(head.epoch, head.sequence) for head in heads} <= set(last.values())


async def test_a_failed_store_is_told_by_nobody(cluster: Cluster) -> None:
    """A store that fails on the primary is copied nowhere, and leaves no reservation."""
    prepared = await cluster.proxy.prepare_store("cpu0", cluster.primary.namespace, [run(1, 2)])

    async with counting_pulls() as pulled:
        await cluster.proxy.complete_store(prepared.lease, failed=True, wait=True)

    assert pulled == []
    assert await cluster.events() == []
    assert await cluster.results(1, 2) == ["MISS", "MISS"]
    assert await cluster.primary.gauges() == {}


@pytest.mark.parametrize("already", [(1,), (1, 2)])
async def test_a_secondary_tells_only_what_it_did_not_have(
    cluster: Cluster, already: tuple[int, ...]
) -> None:
    """Copying to a secondary what it holds already is no event of its."""
    await cluster.first.store(*already)
    await cluster.events()

    stored = await cluster.store(1, 2, wait=True)

    fresh = tuple(block for block in (1, 2) if block not in already)
    first, _ = await stored.cascade.wait()
    assert words(CopyResult, first.results).count("PRESENT") == len(already)
    assert await cluster.events() == [
        Told("P", "stored", (1, 2)),
        *[Told("S1", "stored", fresh)] * bool(fresh),
        Told("S2", "stored", (1, 2)),
    ]


async def test_a_failed_cascade_costs_no_event_and_no_pin(cluster: Cluster) -> None:
    """A secondary that cannot copy stays empty; the primary and the other are as ever."""
    befriend(cluster.first, [])

    stored = await cluster.store(1, 2, wait=True)

    first, second = await stored.cascade.wait()
    assert first.error is not None
    assert words(CopyResult, second.results) == ["COPIED"] * 2
    assert await cluster.events() == [Told("P", "stored", (1, 2)), Told("S2", "stored", (1, 2))]
    assert await cluster.first.gauges() == {}
    assert (await cluster.look_up(1, 2)).prefix_lengths == (2, 0, 2)
    await cluster.is_quiet()
    assert await cluster.primary.gauges() == {"ready": 2}


async def test_a_primary_full_of_cascades_refuses_until_one_ends(cluster: Cluster) -> None:
    """Blocks that are being copied are not evicted; the first that is not, is."""
    none = {"cascade": "none"}
    names = [node.node.node_id for node in cluster.nodes]
    async with holding_up(cluster.first) as one, holding_up(cluster.second) as two:
        await cluster.store(1, cascade=[names[1]])
        await cluster.store(2, cascade=[names[2]])
        await until(lambda: len(cluster.primary.node.leases) == 2)
        await cluster.events()

        with pytest.raises(ExhaustedError) as refused:
            await cluster.store(3, **none)
        refusal = await cluster.events()
        one.set()
        await until(lambda: len(cluster.primary.node.leases) == 1)
        await cluster.store(3, **none)

        assert refused.value.metadata["leased_blocks"] == "2"
        assert refused.value.retry_after
        assert refusal == []
        assert await cluster.events() == [
            Told("P", "removed", (1,)),
            Told("P", "stored", (3,)),
            Told("S1", "stored", (1,)),
        ]
        two.set()
        await cluster.is_quiet()
        assert await cluster.events() == [Told("S2", "stored", (2,))]


async def test_clearing_the_primary_leaves_the_secondaries_alone(cluster: Cluster) -> None:
    """What the secondaries hold is still found, and still loads through the primary."""
    await cluster.store(1, 2, wait=True)
    await cluster.events()

    await cluster.proxy.clear({cluster.primary.endpoint: ["cpu0"]})

    assert await cluster.events() == [Told("P", "cleared", (0,))]
    found = await cluster.look_up(1, 2)
    assert (found.sources, found.prefix_lengths) == ((1, 1), (0, 2, 2))
    report = await cluster.proxy.load("cpu0", cluster.primary.namespace, [run(1, 2)])
    assert list(report.payloads) == payloads(1, 2)
    assert await cluster.events() == [Told("P", "stored", (1, 2))]


async def test_a_touch_reaches_every_node(cluster: Cluster) -> None:
    """A touch through the proxy decides on each node what goes next."""
    for node in cluster.nodes:
        await node.store(1)
        await node.store(2)

    answers = await cluster.proxy.touch(cluster.primary.namespace, [blocks_of(1)])
    for node in cluster.nodes:
        await node.store(3)

    assert [list(answer.tier_masks) for answer in answers] == [[1], [1], [1]]  # type: ignore[union-attr]
    for node in cluster.nodes:
        assert await node.held() == hash_set([1, 3])
