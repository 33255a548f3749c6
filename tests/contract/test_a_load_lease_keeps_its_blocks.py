"""Only a lease keeps a block: as long as it lives, and not a moment on the strength of a lookup."""

import pytest

from kvtier.client import AbortedError, ExhaustedError
from kvtier.v1.block_pb2 import Lease
from kvtier.v1.result_pb2 import LookupResult, ReadResult

from .conftest import Connect, Follow, Serve
from .support import (
    ANY_TIER,
    BLOCK_BYTES,
    MakeTier,
    Serving,
    blocks_of,
    hash_set,
    payloads,
    run,
    words,
)
from .ways import Store

CAPACITY = 100
PINNED, OTHERS, NEW, MORE = range(50), range(50, 100), range(200, 300), range(400, 451)


async def fill(node: Serving, store: Store, *blocks: int) -> None:
    """Store blocks in small offers, as another client would."""
    for first in range(0, len(blocks), 10):
        some = blocks[first : first + 10]
        await store(node.client, ANY_TIER, node.namespace, [run(*some)], payloads(*some))


async def pin(node: Serving) -> Lease:
    """Fill the tier and pin half of it for 30 s."""
    await node.store(*PINNED, tier=ANY_TIER)
    await node.store(*OTHERS, tier=ANY_TIER)
    assert await node.look_up(*PINNED) == ["HIT"] * 50
    answer = await node.client.prepare_load(ANY_TIER, node.namespace, [blocks_of(*PINNED)], ttl=30)
    assert words(LookupResult, answer.results) == ["HIT"] * 50
    return answer.lease


async def test_pinned_blocks_outlive_any_pressure(
    serve: Serve, connect: Connect, follow: Follow, any_tier: MakeTier, store: Store
) -> None:
    """Others are evicted, or an offer is refused; what is pinned is read byte-exact."""
    node = await serve(any_tier(CAPACITY))
    reader = await connect(node)
    lease = await pin(node)
    follower = await follow(node)

    await fill(node, store, *NEW)
    with pytest.raises(ExhaustedError) as refused:
        await store(node.client, ANY_TIER, node.namespace, [run(*MORE)], payloads(*MORE))
    read = await reader.read_blocks(lease, [BLOCK_BYTES] * 50)

    assert refused.value.metadata["leased_blocks"] == "50"
    assert list(read.payloads) == payloads(*PINNED)
    assert (await node.gauges(ANY_TIER))["leased"] == 50
    removed = {each.block_hash for each in await follower.news() if each.what == "removed"}
    assert removed & hash_set(PINNED) == set()


async def test_after_its_time_a_pin_protects_nothing(
    serve: Serve, any_tier: MakeTier, store: Store
) -> None:
    """The blocks may go, the lease is refused, and each block is answered by itself."""
    node = await serve(any_tier(CAPACITY))
    lease = await pin(node)

    node.clock.advance(31)
    unpinned = await node.gauges(ANY_TIER)
    await fill(node, store, *NEW)

    assert unpinned == {"ready": 100}
    assert await node.held(ANY_TIER) == hash_set(NEW)
    with pytest.raises(AbortedError):
        await node.client.read_blocks(lease, [BLOCK_BYTES] * 50)
    with pytest.raises(AbortedError):
        await node.client.complete_load(lease)
    report = await node.client.load(ANY_TIER, node.namespace, [blocks_of(*PINNED)])
    assert words(ReadResult, report.results) == ["MISS"] * 50


async def test_a_lookup_keeps_nothing(serve: Serve, any_tier: MakeTier, store: Store) -> None:
    """Blocks that were found may be gone when they are read: a miss for each, and no error."""
    node = await serve(any_tier(4))
    await fill(node, store, 1, 2)
    await fill(node, store, 3, 4)
    found = await node.look_up(1, 2, 3, 4)
    leased = await node.gauges(ANY_TIER)

    await fill(node, store, 5, 6)

    assert (found, leased) == (["HIT"] * 4, {"ready": 4})
    assert await node.load(1, 2, 3, 4, tier=ANY_TIER) == [None, None, *payloads(3, 4)]
    answer = await node.client.prepare_load(ANY_TIER, node.namespace, [blocks_of(1, 2, 3, 4)])
    assert words(LookupResult, answer.results) == ["MISS", "MISS", "HIT", "HIT"]
    assert await node.gauges(ANY_TIER) == {"ready": 4, "leased": 2}


async def test_only_what_was_readable_is_pinned(
    serve: Serve, any_tier: MakeTier, store: Store
) -> None:
    """A load lease on a block that is still written is answered as pending and holds nothing."""
    node = await serve(any_tier(4))
    await fill(node, store, 1)
    writer = await node.client.prepare_store(ANY_TIER, node.namespace, [run(2)])

    answer = await node.client.prepare_load(ANY_TIER, node.namespace, [blocks_of(1, 2, 3)])
    read = await node.client.read_blocks(answer.lease, [BLOCK_BYTES] * 3)
    await node.client.complete_store(writer.lease, failed=True)

    assert words(LookupResult, answer.results) == ["HIT", "HIT_PENDING", "MISS"]
    assert list(read.payloads) == [*payloads(1), None, None]
    assert await node.gauges(ANY_TIER) == {"ready": 1, "leased": 1}
