"""A primary with two secondaries behind it: who tells what, and what stays where.

The copies that a cascade or a promotion would make are made by the client.
"""

from collections.abc import AsyncIterator

import pytest

from kvtier.client import ExhaustedError
from kvtier.v1.result_pb2 import StoreOutcome
from tests.contract.copies import Copy, copy
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

from .cluster import Cluster, Told, clustered
from .conftest import Serve


@pytest.fixture(name="cluster")
async def _cluster(serve: Serve) -> AsyncIterator[Cluster]:
    """Three nodes of two blocks each."""
    nodes = [await serve(cpu_tier(2)) for _ in range(3)]
    async with clustered(nodes) as cluster:
        yield cluster


async def test_a_store_is_told_and_copied_only_once_complete(cluster: Cluster) -> None:
    """Until the primary completes a store nothing is told and nothing can be copied."""
    client, namespace = cluster.primary.client, cluster.primary.namespace
    prepared = await client.prepare_store("cpu0", namespace, [run(1)])
    await client.write_blocks(prepared.lease, {0: payload(1)}, [BLOCK_BYTES])

    early = await client.prepare_load("cpu0", namespace, [blocks_of(1)])
    before = await cluster.results(1), await cluster.events()
    await client.complete_load(early.lease)
    await client.complete_store(prepared.lease)
    after = await cluster.results(1), await cluster.events()

    assert list(early.results) == [2], "pending, and not pinned"
    assert before == (["HIT_PENDING"], [])
    assert after == (["HIT"], [Told("P", "stored", (1,))])


async def test_each_copy_holds_its_own_pin_until_it_ends(cluster: Cluster) -> None:
    """Two copies of the primary's blocks pin them twice, and the last one frees them."""
    await cluster.primary.store(1, 2)

    first = await Copy.begin(cluster.primary, cluster.first, run(1, 2))
    second = await Copy.begin(cluster.primary, cluster.second, run(1, 2))
    pinned = [(await cluster.primary.gauges()).get("leased")]
    for each in (second, first):
        await each.finish()
        pinned.append((await cluster.primary.gauges()).get("leased"))

    assert pinned == [2, 2, None]


async def test_events_come_primary_first_then_in_configured_order(cluster: Cluster) -> None:
    """The order of the nodes decides, not the order in which their copies ended."""
    await cluster.primary.store(1, 2)
    first = await Copy.begin(cluster.primary, cluster.first, run(1, 2))
    second = await Copy.begin(cluster.primary, cluster.second, run(1, 2))

    await second.finish()
    await first.finish()

    assert await cluster.events() == [
        Told("P", "stored", (1, 2)),
        Told("S1", "stored", (1, 2)),
        Told("S2", "stored", (1, 2)),
    ]


async def test_the_merge_leaves_each_nodes_numbers_alone(cluster: Cluster) -> None:
    """Within a node every message goes on where the one before it ended, in one epoch."""
    last: dict[str, tuple[int, int]] = {}

    for block in range(1, 6):
        await cluster.primary.store(block)
        await copy(cluster.primary, cluster.first, run(block))
        for message in await cluster.take():
            here = last.setdefault(message.node_id, (message.epoch, message.after))
            assert (message.epoch, message.after) == here
            last[message.node_id] = (message.epoch, message.through)

    heads = [(await node.client.get_node()).head for node in cluster.nodes[:2]]
    assert {(head.epoch, head.sequence) for head in heads} <= set(last.values())


async def test_a_failed_store_is_told_by_nobody(cluster: Cluster) -> None:
    """A store that fails on the primary leaves no event and no reservation."""
    client = cluster.primary.client
    prepared = await client.prepare_store("cpu0", cluster.primary.namespace, [run(1, 2)])

    await client.complete_store(prepared.lease, failed=True)

    assert await cluster.events() == []
    assert await cluster.results(1, 2) == ["MISS", "MISS"]
    assert await cluster.primary.gauges() == {}


@pytest.mark.parametrize("already", [(1,), (1, 2)])
async def test_a_secondary_tells_only_what_it_did_not_have(
    cluster: Cluster, already: tuple[int, ...]
) -> None:
    """Copying to a secondary what it holds already is no event of its."""
    await cluster.first.store(*already)
    await cluster.primary.store(1, 2)
    await cluster.events()

    report = await copy(cluster.primary, cluster.first, run(1, 2))

    fresh = tuple(block for block in (1, 2) if block not in already)
    assert words(StoreOutcome, report.outcomes).count("PRESENT") == len(already)
    assert await cluster.events() == [Told("S1", "stored", fresh)] * bool(fresh)


async def test_a_failed_copy_costs_no_event_and_no_pin(cluster: Cluster) -> None:
    """A copy that fails leaves the secondary empty, and the primary as it was."""
    await cluster.primary.store(1, 2)
    await cluster.events()

    await (await Copy.begin(cluster.primary, cluster.first, run(1, 2))).fail()

    assert await cluster.events() == []
    assert await cluster.first.gauges() == {}
    assert await cluster.primary.gauges() == {"ready": 2}
    assert (await cluster.look_up(1, 2)).prefix_lengths == (2, 0, 0)


async def test_a_primary_full_of_copies_refuses_until_one_ends(cluster: Cluster) -> None:
    """Blocks that are being copied are not evicted; the first that is not, is."""
    await cluster.primary.store(1, 2)
    first = await Copy.begin(cluster.primary, cluster.first, run(1))
    second = await Copy.begin(cluster.primary, cluster.second, run(2, after=1))
    await cluster.events()

    with pytest.raises(ExhaustedError) as refused:
        await cluster.primary.store(3)
    refusal = await cluster.events()
    await first.finish()
    await cluster.primary.store(3)

    assert refused.value.metadata["leased_blocks"] == "2"
    assert refused.value.retry_after
    assert refusal == []
    assert await cluster.events() == [
        Told("P", "removed", (1,)),
        Told("P", "stored", (3,)),
        Told("S1", "stored", (1,)),
    ]
    await second.finish()
    assert await cluster.events() == [Told("S2", "stored", (2,))]


async def test_clearing_the_primary_leaves_the_secondaries_alone(cluster: Cluster) -> None:
    """What the secondaries hold is still found, and still loads."""
    await cluster.primary.store(1, 2)
    await copy(cluster.primary, cluster.first, run(1, 2))
    await cluster.events()

    await cluster.primary.client.clear("cpu0")

    assert await cluster.events() == [Told("P", "cleared", (0,))]
    found = await cluster.look_up(1, 2)
    assert (found.sources, found.prefix_lengths) == ((1, 1), (0, 2, 0))
    loaded = await cluster.first.client.load("cpu0", cluster.first.namespace, [blocks_of(1, 2)])
    assert list(loaded.payloads) == payloads(1, 2)


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
