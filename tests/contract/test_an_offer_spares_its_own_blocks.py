"""Room for an offer is made at the cost of others, never of its own members."""

from collections.abc import Sequence
from typing import NamedTuple

import pytest

from kvtier.client import ExhaustedError
from kvtier.v1.block_pb2 import BlockRun
from kvtier.v1.result_pb2 import StoreOutcome

from .conftest import Follow, Serve
from .support import (
    ANY_TIER,
    MakeTier,
    block_hash,
    evicted_hashes,
    hash_set,
    payload,
    payloads,
    run,
    words,
)
from .ways import Store


class Offer(NamedTuple):
    """A block that is there already, and an offer of four that has it in some place."""

    resident: BlockRun
    offered: Sequence[BlockRun]
    order: Sequence[int]
    outcome: str = "PRESENT"


OFFERS = {
    "first": Offer(run(2), [run(2, 3, 4, 5)], (2, 3, 4, 5)),
    "between": Offer(run(2, after=3), [run(3, 2, 4, 5)], (3, 2, 4, 5)),
    "last": Offer(run(2, after=5, start=48), [run(3, 4, 5, 2)], (3, 4, 5, 2)),
    "in another run": Offer(run(2), [run(3, 4, 5), run(2)], (3, 4, 5, 2)),
    "with another parent": Offer(run(2), [run(3, 4, 5, 2)], (3, 4, 5, 2), "MISMATCH"),
}


@pytest.mark.parametrize("offer", OFFERS.values(), ids=OFFERS)
async def test_a_resident_member_of_an_offer_is_not_evicted_for_it(
    serve: Serve, follow: Follow, any_tier: MakeTier, store: Store, offer: Offer
) -> None:
    """The oldest block of a full tier stays when it is offered together with new ones."""
    node = await serve(any_tier(4))
    await node.client.store(ANY_TIER, node.namespace, [offer.resident], [payload(2)])
    for block in (10, 11, 12):
        await node.store(block, tier=ANY_TIER)
    follower = await follow(node)

    report = await store(
        node.client, ANY_TIER, node.namespace, offer.offered, payloads(*offer.order)
    )

    outcomes = dict(zip(offer.order, words(StoreOutcome, report.outcomes), strict=True))
    assert outcomes == {2: offer.outcome, 3: "WRITE", 4: "WRITE", 5: "WRITE"}
    assert set(evicted_hashes(report.evicted)) == hash_set([10, 11, 12])
    told = {(each.what, each.block_hash) for each in await follower.news()}
    assert ("removed", block_hash(2)) not in told
    assert await node.held(ANY_TIER) == hash_set([2, 3, 4, 5])
    assert await node.load(2, 3, 4, 5, tier=ANY_TIER) == payloads(2, 3, 4, 5)


async def test_a_member_that_is_being_written_is_not_given_away(
    serve: Serve, any_tier: MakeTier, store: Store
) -> None:
    """A block that another call is still writing keeps its slot while it is offered again."""
    node = await serve(any_tier(2))
    writer = await node.client.prepare_store(ANY_TIER, node.namespace, [run(1)])

    report = await store(node.client, ANY_TIER, node.namespace, [run(1, 2)], payloads(1, 2))
    await node.client.write_blocks(writer.lease, {0: payload(1)}, [64])
    await node.client.complete_store(writer.lease)

    assert words(StoreOutcome, report.outcomes) == ["PENDING", "WRITE"]
    assert await node.load(1, 2, tier=ANY_TIER) == payloads(1, 2)


async def test_an_offer_that_does_not_fit_beside_its_own_blocks_changes_nothing(
    serve: Serve, follow: Follow, any_tier: MakeTier, store: Store
) -> None:
    """It is refused with what holds the room, and nothing is stored, evicted or told."""
    node = await serve(any_tier(4))
    for block in (2, 10, 11, 12):
        await node.store(block, tier=ANY_TIER)
    follower = await follow(node)
    before = await node.state(ANY_TIER)

    with pytest.raises(ExhaustedError) as refused:
        await store(
            node.client, ANY_TIER, node.namespace, [run(2, 3, 4, 5, 6)], payloads(2, 3, 4, 5, 6)
        )

    assert refused.value.reason == "TIER_FULL"
    assert refused.value.retry_after
    assert await node.state(ANY_TIER) == before
    assert await follower.news() == []
    assert await node.load(2, 10, tier=ANY_TIER) == payloads(2, 10)


async def test_a_refused_offer_leaves_the_order_of_eviction_alone(
    serve: Serve, any_tier: MakeTier, store: Store
) -> None:
    """The resident block of a refused offer is not taken for recently used."""
    node = await serve(any_tier(4))
    for block in (1, 2, 3, 4):
        await node.store(block, tier=ANY_TIER)
    await node.client.prepare_store(ANY_TIER, node.namespace, [run(9)], request_id="named")

    with pytest.raises(ExhaustedError):
        await store(
            node.client,
            ANY_TIER,
            node.namespace,
            [run(2, 5, 6, 7, 8)],
            payloads(2, 5, 6, 7, 8),
            request_id="named",
        )
    report = await node.client.prepare_store(ANY_TIER, node.namespace, [run(5), run(6)])

    assert evicted_hashes(report.evicted) == [block_hash(2), block_hash(3)]
