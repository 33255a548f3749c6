"""Bringing blocks that only a secondary holds into the primary, by copies of the client."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from kvtier.client import ExhaustedError
from kvtier.v1.result_pb2 import StoreOutcome
from tests.contract.copies import copy
from tests.contract.folding import listed
from tests.contract.support import (
    BLOCK_BYTES,
    block_hash,
    blocks_of,
    cpu_tier,
    payload,
    run,
    words,
)

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
    client = cluster.primary.client

    prepared = await client.prepare_store("cpu0", cluster.primary.namespace, [run(1)])
    during = await cluster.results(1), await cluster.events()
    read = await cluster.second.client.load("cpu0", cluster.second.namespace, [blocks_of(1)])
    await client.write_blocks(prepared.lease, {0: read.payloads[0] or b""}, [BLOCK_BYTES])
    await client.complete_store(prepared.lease)

    assert there.sources == (2,)
    assert during == (["HIT_PENDING"], [])
    assert await cluster.events() == [Told("P", "stored", (1,))]
    assert (await cluster.look_up(1)).sources == (0,)


async def test_two_requests_for_one_block_move_it_once(cluster: Cluster) -> None:
    """Of two promotions at the same time one is told to write, and the other that it is pending."""
    await cluster.second.store(1)
    await cluster.events()
    offer = ("cpu0", cluster.primary.namespace, [run(1)])

    offers = await asyncio.gather(*(cluster.primary.client.prepare_store(*offer) for _ in range(2)))
    outcomes = [words(StoreOutcome, offer.outcomes)[0] for offer in offers]
    writer = offers[outcomes.index("WRITE")].lease
    await cluster.primary.client.write_blocks(writer, {0: payload(1)}, [BLOCK_BYTES])
    for each in offers:
        await cluster.primary.client.complete_store(each.lease)

    assert sorted(outcomes) == ["PENDING", "WRITE"]
    assert await cluster.events() == [Told("P", "stored", (1,))]
    assert await cluster.primary.gauges() == {"ready": 1}


async def test_what_a_secondary_cannot_deliver_is_a_miss(cluster: Cluster) -> None:
    """The primary announces what came, and nothing stays pending for what did not."""
    await cluster.second.store(1, 2, 3)
    await cluster.second.client.delete(cluster.second.namespace, [blocks_of(2)])
    await cluster.events()
    client = cluster.primary.client
    prepared = await client.prepare_store("cpu0", cluster.primary.namespace, [run(1, 2, 3)])

    read = await cluster.second.client.load("cpu0", cluster.second.namespace, [blocks_of(1, 2, 3)])
    came = {place: data for place, data in enumerate(read.payloads) if data is not None}
    await client.write_blocks(prepared.lease, came, [BLOCK_BYTES] * 3)
    await client.complete_store(prepared.lease, failed_blocks=[1])

    assert sorted(came) == [0, 2]
    assert await cluster.events() == [Told("P", "stored", (1, 3))]
    assert await cluster.results(1, 2, 3) == ["HIT", "MISS", "HIT"]
    assert await cluster.primary.gauges() == {"ready": 2}


async def test_a_promotion_without_room_changes_nothing(cluster: Cluster) -> None:
    """A primary that cannot make room refuses, evicts nothing, and the secondary still has it."""
    await cluster.primary.store(1, 2, 3)
    await cluster.second.store(4)
    pinned = await cluster.primary.client.prepare_load(
        "cpu0", cluster.primary.namespace, [blocks_of(1, 2, 3)]
    )
    await cluster.events()
    before = await listed(cluster.primary.client)

    with pytest.raises(ExhaustedError):
        await copy(cluster.second, cluster.primary, run(4))

    assert await cluster.events() == []
    assert await listed(cluster.primary.client) == before
    assert (await cluster.look_up(4)).sources == (2,)
    await cluster.primary.client.complete_load(pinned.lease)
    await copy(cluster.second, cluster.primary, run(4))
    assert block_hash(4) in await cluster.primary.held()
