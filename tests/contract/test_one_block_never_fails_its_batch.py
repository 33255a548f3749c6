"""Each block of a store has its own outcome: what is wrong with one leaves the others stored."""

import os

from xxhash import xxh3_64_intdigest

from kvtier.v1.result_pb2 import CompleteResult, StoreOutcome, WriteResult
from kvtier.v1.tier_service_pb2 import (
    PrepareStoreRequest,
)
from kvtier.v1.transfer_service_pb2 import DESCRIPTOR, WriteBlocksRequest, WriteBlocksResponse

from .conftest import Follow, Serve
from .copies import copy
from .folding import listed
from .support import (
    ANY_TIER,
    BLOCK_BYTES,
    MakeTier,
    Serving,
    block_hash,
    blocks_of,
    cpu_tier,
    hash_set,
    payload,
    payloads,
    run,
    words,
)
from .ways import Store
from .wire import wire

WRITE = DESCRIPTOR.services_by_name["TransferService"].methods_by_name["WriteBlocks"]


def part(place: int, block: str, *, checksum: int | None = None) -> WriteBlocksRequest:
    """One whole block, with its own checksum or another."""
    data = payload(block)
    good = xxh3_64_intdigest(data)
    return WriteBlocksRequest(
        block_index=place, data=data, checksums=[good if checksum is None else checksum]
    )


async def write(
    node: Serving, first: WriteBlocksRequest, *parts: WriteBlocksRequest
) -> dict[int, str]:
    """Send parts as they are; return what became of each block."""
    async with wire(node.endpoint) as raw:
        outcome = await raw.call(WRITE, first, *parts)
    assert outcome.error is None
    answers = [WriteBlocksResponse.FromString(answer) for answer in outcome.answers]
    return {
        place: result
        for answer in answers
        for place, result in zip(
            answer.block_indexes, words(WriteResult, answer.results), strict=True
        )
    }


def offer_of(node: Serving, *blocks: str) -> WriteBlocksRequest:
    offer = PrepareStoreRequest(
        tier=ANY_TIER,
        namespace=node.namespace,
        runs=[run(*blocks)],
        lease_id=os.urandom(16),
        owner="test",
    )
    return WriteBlocksRequest(offer=offer)


async def test_a_block_that_is_there_does_not_stop_the_others(
    serve: Serve, follow: Follow, any_tier: MakeTier, store: Store
) -> None:
    """A is there; B and C are stored beside it, load exact and are told, each once."""
    node = await serve(any_tier(4))
    await node.store("A", tier=ANY_TIER)
    follower = await follow(node)

    report = await store(
        node.client, ANY_TIER, node.namespace, [run("A", "B", "C")], payloads("A", "B", "C")
    )

    assert words(StoreOutcome, report.outcomes) == ["PRESENT", "WRITE", "WRITE"]
    assert words(WriteResult, report.results) == ["UNSPECIFIED", "STORED", "STORED"]
    told = [(each.what, each.block_hash) for each in await follower.news()]
    assert told == [("stored", block_hash("B")), ("stored", block_hash("C"))]
    assert await node.load("A", "B", "C", tier=ANY_TIER) == payloads("A", "B", "C")


async def test_a_copy_of_a_batch_stores_what_the_target_lacks(serve: Serve, follow: Follow) -> None:
    """A second node that has A takes B and C, and announces nothing that it cannot load."""
    source, target = await serve(cpu_tier(4)), await serve(cpu_tier(4))
    await source.store("A", "B", "C")
    await target.store("A")
    follower = await follow(target)

    report = await copy(source, target, run("A", "B", "C"))

    assert words(WriteResult, report.results) == ["UNSPECIFIED", "STORED", "STORED"]
    assert {each.block_hash for each in await follower.news()} == hash_set("BC")
    assert follower.fold.view == await listed(target.client)
    assert await target.load("A", "B", "C") == payloads("A", "B", "C")


async def test_one_mismatch_does_not_stop_the_others(
    serve: Serve, any_tier: MakeTier, store: Store
) -> None:
    """B is resident in another chain: it stays as it is, and A and C are stored."""
    node = await serve(any_tier(4))
    await node.store("B", tier=ANY_TIER)

    report = await store(
        node.client, ANY_TIER, node.namespace, [run("A", "B", "C")], payloads("A", "other", "C")
    )

    assert words(StoreOutcome, report.outcomes) == ["WRITE", "MISMATCH", "WRITE"]
    assert await node.load("A", "B", "C", tier=ANY_TIER) == payloads("A", "B", "C")


async def test_a_corrupt_block_of_an_offer_is_given_back_alone(
    serve: Serve, follow: Follow, any_tier: MakeTier
) -> None:
    """Its checksum does not fit: it is told so, and the blocks around it are stored."""
    node = await serve(any_tier(4))
    follower = await follow(node)

    results = await write(
        node,
        offer_of(node, "A", "B", "C"),
        part(0, "A"),
        part(1, "B", checksum=1),
        part(2, "C"),
    )

    assert results == {0: "STORED", 1: "CORRUPT", 2: "STORED"}
    assert {each.block_hash for each in await follower.news()} == hash_set("AC")
    assert await node.load("A", "B", "C", tier=ANY_TIER) == [payload("A"), None, payload("C")]
    assert await node.gauges(ANY_TIER) == {"ready": 2}


async def test_a_block_of_an_offer_that_never_came_is_given_back_alone(
    serve: Serve, any_tier: MakeTier
) -> None:
    """One is left out and one only begun: both are incomplete, and what came whole is stored."""
    node = await serve(any_tier(4))
    begun = WriteBlocksRequest(block_index=3, data=payload("D")[:10])

    results = await write(
        node, offer_of(node, "A", "B", "C", "D"), part(0, "A"), part(2, "C"), begun
    )

    assert results == {0: "STORED", 1: "INCOMPLETE", 2: "STORED", 3: "INCOMPLETE"}
    assert await node.held(ANY_TIER) == hash_set("AC")
    assert await node.gauges(ANY_TIER) == {"ready": 2}


async def test_a_corrupt_block_under_a_lease_may_be_written_again(
    serve: Serve, any_tier: MakeTier
) -> None:
    """The lease lives on, and the second writing is what is stored."""
    node = await serve(any_tier(4))
    prepared = await node.client.prepare_store(ANY_TIER, node.namespace, [run("A", "B")])
    under = WriteBlocksRequest(lease=prepared.lease)

    first = await write(node, under, part(0, "A"), part(1, "B", checksum=1))
    second = await write(node, under, part(1, "B"))
    completed = await node.client.complete_store(prepared.lease)

    assert (first, second) == ({0: "WRITTEN", 1: "CORRUPT"}, {1: "WRITTEN"})
    assert words(CompleteResult, completed.results) == ["STORED", "STORED"]
    assert await node.load("A", "B", tier=ANY_TIER) == payloads("A", "B")


async def test_a_completion_stores_what_was_written(
    serve: Serve, follow: Follow, any_tier: MakeTier
) -> None:
    """Of four blocks one failed, one was never written and one is deleted: the fourth is stored."""
    node = await serve(any_tier(4))
    follower = await follow(node)
    prepared = await node.client.prepare_store(ANY_TIER, node.namespace, [run("A", "B", "C", "D")])
    written = {0: payload("A"), 1: payload("B"), 3: payload("D")}
    await node.client.write_blocks(prepared.lease, written, [BLOCK_BYTES] * 4)
    await node.client.delete(node.namespace, [blocks_of("D")], force=True)

    completed = await node.client.complete_store(prepared.lease, failed_blocks=[0])

    assert words(CompleteResult, completed.results) == [
        "FAILED",
        "STORED",
        "NOT_WRITTEN",
        "DELETED",
    ]
    assert [(each.what, each.block_hash) for each in await follower.news()] == [
        ("stored", block_hash("B"))
    ]
    assert await node.held(ANY_TIER) == hash_set("B")
    assert await node.gauges(ANY_TIER) == {"ready": 1}
