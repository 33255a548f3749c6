"""Blocks that only a secondary holds come to the primary when they are loaded."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.contract.folding import listed
from tests.contract.managed import counting_pulls, holding_up
from tests.contract.support import blocks_of, cpu_tier, hash_set, payloads, run
from tests.waiting import until

from .cluster import Cluster, Told, clustered
from .conftest import Serve


@pytest.fixture(name="cluster")
async def _cluster(serve: Serve) -> AsyncIterator[Cluster]:
    """Three nodes of three blocks each."""
    nodes = [await serve(cpu_tier(3)) for _ in range(3)]
    async with clustered(nodes) as cluster:
        yield cluster


async def test_a_promoted_block_is_pending_then_ready(cluster: Cluster) -> None:
    """While it is copied the primary says pending; then only the primary tells a store."""
    await cluster.second.store(1)
    await cluster.events()
    there = await cluster.look_up(1)

    async with counting_pulls() as pulled, holding_up(cluster.primary) as gate:
        asked = await cluster.load(1, wait=False)
        during = await cluster.load(1, wait=False), await cluster.events()
        gate.set()
        ready = await cluster.load(1)

    assert there.sources == (2,)
    assert asked == ["HIT_PENDING"]
    assert during == (["HIT_PENDING"], [])
    assert ready == ["HIT"]
    assert pulled == [cluster.second.endpoint]
    assert await cluster.events() == [Told("P", "stored", (1,))]
    assert (await cluster.look_up(1)).sources == (0,)
    await cluster.is_quiet()


async def test_two_requests_for_one_block_move_it_once(cluster: Cluster) -> None:
    """Both get it by the same transfer."""
    await cluster.second.store(1)
    await cluster.events()

    async with counting_pulls() as pulled, holding_up(cluster.primary) as gate:
        loads = [
            asyncio.create_task(
                cluster.proxy.load("cpu0", cluster.primary.namespace, [run(1)], request_id=name)
            )
            for name in ("one", "other")
        ]
        await until(lambda: len(cluster.primary.node.leases) >= len(loads))
        gate.set()
        reports = await asyncio.gather(*loads)

    assert [list(each.payloads) for each in reports] == [payloads(1)] * 2
    assert len(pulled) == 1
    assert await cluster.events() == [Told("P", "stored", (1,))]
    await cluster.is_quiet()
    assert await cluster.primary.gauges() == {"ready": 1}


async def test_what_a_secondary_cannot_deliver_is_a_miss(cluster: Cluster) -> None:
    """The primary announces what came, and nothing stays pending for what did not."""
    await cluster.second.store(1, 2, 3)
    await cluster.events()

    async with holding_up(cluster.primary) as gate:
        load = asyncio.create_task(cluster.load(1, 2, 3))
        await until(lambda: cluster.proxy.managing.promotions.under_way == 3)
        await cluster.second.client.delete(cluster.second.namespace, [blocks_of(2)])
        gate.set()
        results = await load

    assert results == ["HIT", "MISS", "HIT"]
    assert await cluster.events() == [
        Told("P", "stored", (1, 3)),
        Told("S2", "removed", (2,)),
    ]
    assert await cluster.results(1, 2, 3) == ["HIT", "MISS", "HIT"]
    await cluster.is_quiet()
    assert await cluster.primary.gauges() == {"ready": 2}


async def test_a_promotion_without_room_changes_nothing(cluster: Cluster) -> None:
    """It is a miss for now; the primary evicts nothing, and the secondary still has the block."""
    await cluster.primary.store(1, 2, 3)
    await cluster.second.store(4)
    pinned = await cluster.primary.client.prepare_load(
        "cpu0", cluster.primary.namespace, [blocks_of(1, 2, 3)]
    )
    await cluster.events()
    before = await listed(cluster.primary.client)

    refused = await cluster.load(4)

    assert refused == ["MISS"]
    assert await cluster.events() == []
    assert await listed(cluster.primary.client) == before
    assert (await cluster.look_up(4)).sources == (2,)
    await cluster.primary.client.complete_load(pinned.lease)
    assert await cluster.load(4) == ["HIT"]
    assert hash_set([4]) <= await cluster.primary.held()
