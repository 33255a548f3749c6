"""A block that one request names twice is handled once, and answered in both places."""

from collections.abc import Sequence

import pytest

from kvtier.v1.block_pb2 import BlockRun, BlockSet
from kvtier.v1.result_pb2 import (
    CompleteResult,
    DeleteResult,
    LookupResult,
    StoreOutcome,
    WriteResult,
)

from .conftest import Follow, Serve
from .folding import listed
from .support import (
    ANY_TIER,
    BLOCK_BYTES,
    MakeTier,
    block_hash,
    blocks_of,
    hash_set,
    payload,
    payloads,
    run,
    words,
)
from .ways import Store

# An offer of A, A and B, and the same blocks as sets.
OFFERS: dict[str, Sequence[BlockRun]] = {
    "in one run": [run("A", "A", "B")],
    "in two runs": [run("A"), run("A", "B")],
}
SETS: dict[str, Sequence[BlockSet]] = {
    "in one set": [blocks_of("A", "A", "B")],
    "in two sets": [blocks_of("A"), blocks_of("A", "B")],
}
THREE = payloads("A", "A", "B")


@pytest.mark.parametrize("offer", OFFERS.values(), ids=OFFERS)
async def test_a_block_offered_twice_takes_one_slot(
    serve: Serve, follow: Follow, any_tier: MakeTier, store: Store, offer: Sequence[BlockRun]
) -> None:
    """A tier of two blocks takes A, A and B; both places of A are answered, one event is told."""
    node = await serve(any_tier(2))
    follower = await follow(node)

    first = await store(node.client, ANY_TIER, node.namespace, offer, THREE)
    again = await store(node.client, ANY_TIER, node.namespace, offer, THREE)

    assert words(StoreOutcome, first.outcomes) == ["WRITE"] * 3
    assert words(WriteResult, first.results) == ["STORED"] * 3
    assert words(StoreOutcome, again.outcomes) == ["PRESENT"] * 3
    told = [(each.what, each.block_hash) for each in await follower.news()]
    assert told == [("stored", block_hash("A")), ("stored", block_hash("B"))]
    assert await node.held(ANY_TIER) == hash_set("AB")
    assert (await node.tier(ANY_TIER)).counters.mismatched == 0
    assert await node.gauges(ANY_TIER) == {"ready": 2}


@pytest.mark.parametrize("offer", OFFERS.values(), ids=OFFERS)
@pytest.mark.parametrize("end", ["fails", "is released", "expires"])
async def test_a_block_reserved_twice_is_given_back_once(
    serve: Serve, any_tier: MakeTier, offer: Sequence[BlockRun], end: str
) -> None:
    """After a reservation with a duplicate ends, every slot is free and none is free twice."""
    node = await serve(any_tier(2))
    prepared = await node.client.prepare_store(ANY_TIER, node.namespace, offer)
    during = await node.gauges(ANY_TIER)

    match end:
        case "fails":
            failed = await node.client.complete_store(prepared.lease, failed=True)
            assert words(CompleteResult, failed.results) == ["FAILED"] * 3
        case "is released":
            await node.client.release_leases([prepared.lease])
        case "expires":
            node.clock.advance(30)

    assert during == {"pending": 2}
    assert await node.gauges(ANY_TIER) == {}
    await node.store(1, 2, tier=ANY_TIER)
    assert await node.load(1, 2, tier=ANY_TIER) == payloads(1, 2)
    assert await node.gauges(ANY_TIER) == {"ready": 2}


@pytest.mark.parametrize("sets", SETS.values(), ids=SETS)
async def test_a_block_loaded_twice_has_one_pin(
    serve: Serve, any_tier: MakeTier, sets: Sequence[BlockSet]
) -> None:
    """Both places are read, with and without a lease, and one completion frees it."""
    node = await serve(any_tier(2))
    await node.store("A", "B", tier=ANY_TIER)

    pinned = await node.client.prepare_load(ANY_TIER, node.namespace, sets)
    described = await node.client.describe_block(node.namespace, 0, b"", block_hash("A"))
    read = await node.client.read_blocks(pinned.lease, [BLOCK_BYTES] * 3)
    during = await node.gauges(ANY_TIER)
    await node.client.complete_load(pinned.lease)
    bare = await node.client.load(ANY_TIER, node.namespace, sets)

    assert words(LookupResult, pinned.results) == ["HIT"] * 3
    assert described.copies[0].leases == 1
    assert len(described.leases) == 1
    assert list(read.payloads) == list(bare.payloads) == THREE
    assert during == {"ready": 2, "leased": 2}
    assert await node.gauges(ANY_TIER) == {"ready": 2}


@pytest.mark.parametrize("sets", SETS.values(), ids=SETS)
async def test_a_block_deleted_twice_is_removed_once(
    serve: Serve, follow: Follow, any_tier: MakeTier, sets: Sequence[BlockSet]
) -> None:
    """Both places say deleted, and one removal is told."""
    node = await serve(any_tier(2))
    await node.store("A", "B", tier=ANY_TIER)
    follower = await follow(node)

    answer = await node.client.delete(node.namespace, sets)

    assert words(DeleteResult, answer.tiers[0].results) == ["DELETED"] * 3
    told = [(each.what, each.block_hash) for each in await follower.news()]
    assert told == [("removed", block_hash("A")), ("removed", block_hash("B"))]
    assert await node.gauges(ANY_TIER) == {}


@pytest.mark.parametrize("sets", SETS.values(), ids=SETS)
async def test_a_duplicate_in_a_touch_or_a_lookup_is_answered_twice(
    serve: Serve, any_tier: MakeTier, sets: Sequence[BlockSet]
) -> None:
    """Touching and looking up answer for each place, and upset nothing."""
    node = await serve(any_tier(2))
    await node.store("A", "B", tier=ANY_TIER)

    touched = await node.client.touch(node.namespace, sets)
    found = await node.client.lookup(node.namespace, sets, include_blocks=True)
    await node.store("C", tier=ANY_TIER)

    assert list(touched.tier_masks) == [1, 1, 1]
    results = [result for chain in found.chains for result in chain.results]
    assert words(LookupResult, results) == ["HIT"] * 3
    assert await node.load("A", "B", "C", tier=ANY_TIER) == [payload("A"), None, payload("C")]


async def test_a_duplicate_across_scopes_is_none(
    serve: Serve, follow: Follow, any_tier: MakeTier, store: Store
) -> None:
    """The same hash in two scopes of one offer is two blocks."""
    node = await serve(any_tier(2))
    follower = await follow(node)

    report = await store(
        node.client,
        ANY_TIER,
        node.namespace,
        [run("A"), run("A", scope=b"other")],
        payloads("A", "of the other"),
    )

    assert words(WriteResult, report.results) == ["STORED", "STORED"]
    assert len(await follower.news()) == 2
    assert follower.fold.view == await listed(node.client)
    assert await node.gauges(ANY_TIER) == {"ready": 2}
