"""Blocks of one hash under two adapters, tenants, salts, groups or namespaces are two blocks."""

import pytest

from kvtier.client import NotFoundError
from kvtier.v1.result_pb2 import DeleteResult, StoreOutcome, WriteResult

from .conftest import Follow, Serve
from .folding import listed
from .identities import IDENTITIES, Identity
from .support import ANY_TIER, MakeTier, block_hash, words
from .ways import Store, store_in_one_call

Three = tuple[Identity, Identity, Identity]
each_kind = pytest.mark.parametrize("three", IDENTITIES.values(), ids=IDENTITIES)


@each_kind
async def test_each_reads_its_own_bytes_and_a_third_reads_none(
    serve: Serve, any_tier: MakeTier, store: Store, three: Three
) -> None:
    """Stored under two identities a hash is loaded under both, exact, and missed under a third."""
    node = await serve(any_tier(4))
    one, two, _ = three

    first = await one.store(node.client, ANY_TIER, store)
    missed = await two.look_up(node.client)
    second = await two.store(node.client, ANY_TIER, store)

    assert words(StoreOutcome, [*first.outcomes, *second.outcomes]) == ["WRITE", "WRITE"]
    assert words(WriteResult, [*first.results, *second.results]) == ["STORED", "STORED"]
    assert missed == "MISS"
    assert [await each.look_up(node.client) for each in three] == ["HIT", "HIT", "MISS"]
    loaded = [await each.load(node.client, ANY_TIER) for each in three]
    assert loaded == [one.payload, two.payload, None]
    assert await node.gauges(ANY_TIER) == {"ready": 2}


@each_kind
async def test_events_and_listings_name_the_identity(
    serve: Serve, follow: Follow, any_tier: MakeTier, three: Three
) -> None:
    """Live and late followers, the listing and its filters tell whose each block is."""
    node = await serve(any_tier(4))
    live = await follow(node)
    one, two, third = three

    for each in (one, two):
        await each.store(node.client, ANY_TIER, store_in_one_call)
    await live.settle()
    late = await follow(node)

    keys = [await each.key(node.client, ANY_TIER) for each in three]
    assert set(live.fold.view) == set(keys[:2])
    assert [live.fold.view[key].adapter_name for key in keys[:2]] == [one.adapter, two.adapter]
    assert live.fold.view == late.fold.view == await listed(node.client)
    for each, key in zip(three, keys, strict=True):
        mine = node.client.list_blocks(namespace=key.namespace, group=each.group, scope=each.scope)
        shown = [(b.namespace, b.group, b.scope, b.block_hash) async for b in mine]
        assert shown == ([] if each is third else [key[1:]])


@each_kind
async def test_removing_one_leaves_the_other(
    serve: Serve, follow: Follow, any_tier: MakeTier, three: Three
) -> None:
    """A delete under one identity removes its block and no other, and says so."""
    node = await serve(any_tier(4))
    one, two, third = three
    for each in (one, two):
        await each.store(node.client, ANY_TIER, store_in_one_call)
    follower = await follow(node)

    results = []
    for each in (third, one):
        answer = await node.client.delete(await each.register(node.client), [each.blocks])
        results += words(DeleteResult, answer.tiers[0].results)

    assert results == ["NOT_FOUND", "DELETED"]
    assert [each.what for each in await follower.news()] == ["removed"]
    assert set(follower.fold.view) == {await two.key(node.client, ANY_TIER)}
    assert await one.load(node.client, ANY_TIER) is None
    assert await two.load(node.client, ANY_TIER) == two.payload


@each_kind
async def test_one_is_described_pinned_and_touched_alone(
    serve: Serve, any_tier: MakeTier, three: Three
) -> None:
    """A description, a pin and a touch concern the block of their identity."""
    node = await serve(any_tier(2))
    one, two, third = three
    for each in (one, two):
        await each.store(node.client, ANY_TIER, store_in_one_call)
    fingerprints = [await each.register(node.client) for each in three]

    touched = await node.client.touch(fingerprints[2], [third.blocks])
    pinned = await node.client.prepare_load(ANY_TIER, fingerprints[0], [one.blocks])
    described = [
        await node.client.describe_block(
            fingerprint, each.group, each.scope, block_hash("the same hash")
        )
        for fingerprint, each in zip(fingerprints[:2], (one, two), strict=True)
    ]
    with pytest.raises(NotFoundError):
        await node.client.describe_block(
            fingerprints[2], third.group, third.scope, block_hash("the same hash")
        )
    await node.store("pressure", tier=ANY_TIER)

    assert list(touched.tier_masks) == [0]
    assert [len(each.leases) for each in described] == [1, 0]
    assert [each.copies[0].adapter_name for each in described] == [one.adapter, two.adapter]
    assert await one.look_up(node.client) == "HIT"
    assert await two.look_up(node.client) == "MISS"
    await node.client.complete_load(pinned.lease)
