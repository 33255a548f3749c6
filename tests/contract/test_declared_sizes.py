"""What a caller says of sizes is checked before anything is set aside, and against what comes."""

from collections.abc import Sequence

import pytest
from xxhash import xxh3_64_intdigest

from kvtier.client import FailedPreconditionError, InvalidArgumentError, Reason
from kvtier.v1.result_pb2 import CompleteResult, WriteResult
from kvtier.v1.tier_service_pb2 import (
    PrepareStoreRequest,
)
from kvtier.v1.transfer_service_pb2 import WriteBlocksRequest, WriteBlocksResponse
from tests.waiting import until

from .conftest import Serve
from .following import following
from .support import Serving, cpu_tier, namespace, payload, run, words
from .wire import METHODS, Outcome, wire

KIB, MIB, TIB = 1 << 10, 1 << 20, 1 << 40
SIZES = [[0], [TIB], [1 << 63], [(1 << 64) - 1], [(1 << 30) + 1], [64, TIB], [64] * 1000]
WRITE = METHODS["TransferService.WriteBlocks"]
BLOCK = payload("a", MIB)
SUM = xxh3_64_intdigest(BLOCK)


def message(data: bytes, *, offset: int = 0, checksums: Sequence[int] = ()) -> WriteBlocksRequest:
    return WriteBlocksRequest(offset=offset, data=data, checksums=checksums)


# What a caller sends for a block of 1 MiB; and the code, or else the block's result.
STREAMS: dict[str, tuple[list[WriteBlocksRequest], str]] = {
    "twice as much at once": ([message(BLOCK * 2, checksums=[SUM])], "INVALID_ARGUMENT"),
    "a byte more": ([message(BLOCK + b"x", checksums=[SUM])], "INVALID_ARGUMENT"),
    "twice as much in parts": (
        [message(BLOCK[: 512 * KIB], offset=i * 512 * KIB) for i in range(4)],
        "INVALID_ARGUMENT",
    ),
    "more behind a good half": (
        [message(BLOCK[: 512 * KIB]), message(BLOCK, offset=512 * KIB, checksums=[SUM])],
        "INVALID_ARGUMENT",
    ),
    "a part beyond the end": ([message(b"x", offset=MIB)], "INVALID_ARGUMENT"),
    "a part far beyond": ([message(b"x", offset=1 << 63)], "INVALID_ARGUMENT"),
    "a part behind a gap": (
        [message(BLOCK[: 256 * KIB]), message(BLOCK[512 * KIB :], offset=512 * KIB)],
        "INVALID_ARGUMENT",
    ),
    "half": ([message(BLOCK[: 512 * KIB])], "INCOMPLETE"),
    "a byte less": ([message(BLOCK[:-1])], "INCOMPLETE"),
    "nothing": ([], "INCOMPLETE"),
    "other bytes": ([message(BLOCK, checksums=[SUM + 1])], "CORRUPT"),
}


async def sized(serve: Serve) -> tuple[Serving, bytes]:
    """A node with room for one block of 1 MiB, and the namespace of such blocks."""
    node = await serve({**cpu_tier(1), "capacity": MIB, "slot_bytes": MIB})
    return node, await node.client.register_namespace(namespace("sized", block_bytes=[MIB]))


def results(outcome: Outcome) -> list[str]:
    answers = map(WriteBlocksResponse.FromString, outcome.answers)
    return words(WriteResult, [each for answer in answers for each in answer.results])


@pytest.mark.parametrize("block_bytes", SIZES, ids=lambda sizes: f"{sizes[-1]:#x} x{len(sizes)}")
async def test_a_size_that_cannot_be_is_refused(serve: Serve, block_bytes: list[int]) -> None:
    """A namespace of blocks of no bytes, or of more than the limit, is not registered."""
    node = await serve()
    before = await node.client.list_namespaces()

    with pytest.raises(InvalidArgumentError, match="block_bytes"):
        await node.client.register_namespace(namespace("huge", block_bytes=block_bytes))

    assert await node.client.list_namespaces() == before


async def test_a_block_that_no_slot_holds_is_refused(serve: Serve) -> None:
    """An offer of blocks of 1 GiB to slots of 64 bytes names both sizes and reserves nothing."""
    node = await serve()
    fingerprint = await node.client.register_namespace(namespace("big", block_bytes=[1 << 30]))

    with pytest.raises(FailedPreconditionError, match=r"1073741824.* 64") as refused:
        await node.client.prepare_store("cpu0", fingerprint, [run("a")])

    assert refused.value.reason == Reason.BLOCK_TOO_LARGE
    assert await node.gauges() == {}


@pytest.mark.parametrize(("stream", "expected"), STREAMS.values(), ids=STREAMS.keys())
async def test_bytes_that_differ_from_the_offer_are_not_stored(
    serve: Serve, stream: list[WriteBlocksRequest], expected: str
) -> None:
    """More, less or other bytes than the block has are told; its room is free for the next."""
    node, fingerprint = await sized(serve)
    offer = PrepareStoreRequest(
        tier="cpu0", namespace=fingerprint, runs=[run("a")], lease_id=b"i" * 16, owner="test"
    )
    async with following(node.endpoint) as follower, wire(node.endpoint) as raw:
        outcome = await raw.call(WRITE, WriteBlocksRequest(offer=offer), *stream)
        await until(lambda: not node.node.transfers)
        assert await node.gauges() == {}
        await node.client.store("cpu0", fingerprint, [run("b")], [payload("b", MIB)])
        await follower.settle(node.client)

    assert (outcome.code if outcome.error else results(outcome)[-1]) == expected
    assert len(follower.fold.told) == 1


@pytest.mark.parametrize(("stream", "expected"), STREAMS.values(), ids=STREAMS.keys())
async def test_bytes_that_differ_from_the_lease_are_not_stored(
    serve: Serve, stream: list[WriteBlocksRequest], expected: str
) -> None:
    """Under a lease the block stays to be written, and is not stored by its completion."""
    node, fingerprint = await sized(serve)
    lease = (await node.client.prepare_store("cpu0", fingerprint, [run("a")])).lease
    async with wire(node.endpoint) as raw:
        outcome = await raw.call(WRITE, WriteBlocksRequest(lease=lease), *stream)
    completed = await node.client.complete_store(lease)

    told = outcome.code if outcome.error else "".join(results(outcome)) or "INCOMPLETE"
    assert told == expected
    assert words(CompleteResult, completed.results) == ["NOT_WRITTEN"]
    assert await node.gauges() == {}
    assert (await node.client.get_node()).head.sequence == 0
