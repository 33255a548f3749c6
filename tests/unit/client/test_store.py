"""Writing blocks to a node."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
import xxhash

from kvtier.client import (
    AbortedError,
    ExhaustedError,
    InvalidArgumentError,
    KvtierError,
    NodeClient,
)
from kvtier.v1.block_pb2 import Lease
from kvtier.v1.tier_service_pb2 import (
    RegisterNamespaceResponse,
)
from kvtier.v1.transfer_service_pb2 import (
    WriteBlocksRequest,
    WriteBlocksResponse,
)
from kvtier.wire.errors import Reason, aborted, exhausted, not_found

from .fakes import FakeNode, play
from .messages import FINGERPRINT, LARGE_FINGERPRINT, NAMESPACE, block_run
from .transferring import (
    DAMAGED,
    MIB,
    NOTHING,
    PRESENT,
    STORED,
    WRITE,
    WRITTEN,
    Writer,
    by_place,
    payload_of,
)


async def test_small_blocks_go_with_the_offer(knowing: FakeNode, client: NodeClient) -> None:
    """One message carries the offer and every byte; the answer tells what was wanted."""
    writer = Writer(WRITE, PRESENT, WRITE, evicted=b"12345678")
    knowing.on("WriteBlocks", writer)
    payloads = [payload_of(0, 64), payload_of(1, 64), payload_of(2, 128)]

    report = await client.store(
        "cpu0", FINGERPRINT, [block_run(1, 2), block_run(3, group=1)], payloads, request_id="r"
    )

    (request,) = writer.requests
    assert request.offer.tier == "cpu0"
    assert request.offer.request_id == "r"
    assert request.offer.owner == client.owner
    assert request.data == b"".join(payloads)
    assert list(request.checksums) == [xxhash.xxh3_64_intdigest(each) for each in payloads]
    assert report.outcomes == (WRITE, PRESENT, WRITE)
    assert report.results == (STORED, NOTHING, STORED)
    assert [each.blocks.block_hashes for each in report.evicted] == [b"12345678"]


async def test_large_blocks_wait_for_the_answer_and_only_wanted_ones_go(
    knowing: FakeNode, client: NodeClient
) -> None:
    """No byte of a block that is there already crosses the wire, and no chunk exceeds 2 MiB."""
    writer = Writer(WRITE, WRITE, WRITE, PRESENT, WRITE)
    knowing.on("WriteBlocks", writer)
    payloads = [payload_of(place, 700_000) for place in range(5)]

    report = await client.store("cpu0", LARGE_FINGERPRINT, [block_run(1, 2, 3, 4, 5)], payloads)

    first, *chunks = writer.requests
    assert writer.before == 1
    assert first.data == b""
    assert max(len(chunk.data) for chunk in chunks) == 2 * MIB
    found = by_place(chunks, [700_000] * 5)
    assert found == {place: payloads[place] for place in (0, 1, 2, 4)}
    assert report.results == (STORED, STORED, STORED, NOTHING, STORED)


async def test_any_contiguous_buffer_is_a_payload(knowing: FakeNode, client: NodeClient) -> None:
    """Arrays of numbers are stored as the bytes that they are."""
    writer = Writer(WRITE, WRITE)
    knowing.on("WriteBlocks", writer)
    numbers = memoryview(bytearray(64)).cast("q")

    await client.store("cpu0", FINGERPRINT, [block_run(1, 2)], [numbers, bytearray(b"x" * 64)])

    assert writer.requests[0].data == bytes(64) + b"x" * 64


async def test_blocks_of_an_open_lease_are_written_by_place(
    node: FakeNode, client: NodeClient
) -> None:
    """Places may be left out; every block's bytes arrive at its place."""
    seen: list[WriteBlocksRequest] = []

    async def receive(requests: AsyncIterator[Any]) -> AsyncIterator[WriteBlocksResponse]:
        seen.extend([request async for request in requests])
        yield WriteBlocksResponse(block_indexes=[3, 0], results=[WRITTEN, DAMAGED])

    node.on("WriteBlocks", receive)
    lease = Lease(id=b"i" * 16, generation=5)
    sizes = [3, 4, 5, 6]

    results = await client.write_blocks(lease, {3: b"333333", 0: b"000", 2: b"22222"}, sizes)

    first, *chunks = seen
    assert first.lease == lease
    assert by_place(chunks, sizes) == {0: b"000", 2: b"22222", 3: b"333333"}
    assert results == {3: WRITTEN, 0: DAMAGED}


@pytest.mark.parametrize(
    ("payloads", "words"),
    [
        ([b"x" * 64], "payloads has 1 entries; runs has 2 blocks"),
        ([b"x" * 64] * 3, "payloads has 3 entries; runs has 2 blocks"),
        ([b"x" * 64, b"x" * 63], r"payloads\[1\] has 63 bytes; the block has 64"),
        ([b"x" * 64, b""], r"payloads\[1\] has 0 bytes; the block has 64"),
        ([b"x" * 64, None], r"payloads\[1\] must be a contiguous buffer of bytes; got NoneType"),
    ],
)
async def test_payloads_have_to_fit_the_offer(
    knowing: FakeNode, client: NodeClient, payloads: list[Any], words: str
) -> None:
    """A wrong number or size is told before anything is offered."""
    with pytest.raises(InvalidArgumentError, match=words):
        await client.store("cpu0", FINGERPRINT, [block_run(1, 2)], payloads)

    assert "WriteBlocks" not in knowing.names()


async def test_an_offer_that_is_refused_raises(knowing: FakeNode, client: NodeClient) -> None:
    """No room is an error with everything the node said, and leaves no writer waiting."""
    full = exhausted("full", Reason.TIER_FULL, retry_after=0.5, metadata={"pinned": "4"})
    knowing.on("WriteBlocks", play(then=full))
    payloads = [payload_of(place, 700_000) for place in range(2)]
    before = asyncio.all_tasks()

    with pytest.raises(ExhaustedError) as caught:
        await client.store("cpu0", LARGE_FINGERPRINT, [block_run(1, 2)], payloads)
    await asyncio.sleep(0.05)

    assert caught.value.retry_after == 0.5
    assert caught.value.metadata["pinned"] == "4"
    assert not [task for task in asyncio.all_tasks() - before if "_consume_request" in repr(task)]


@pytest.mark.parametrize("read", [0, 1, 3])
async def test_what_ends_a_large_write_early_is_told_as_the_node_told_it(
    node: FakeNode, client: NodeClient, read: int
) -> None:
    """A node that gives up in the middle is heard, however much was still to be written."""

    async def give_up(requests: AsyncIterator[Any]) -> AsyncIterator[WriteBlocksResponse]:
        for _ in range(read):
            await anext(requests)
        raise aborted("the lease was cleared")
        yield

    node.on("WriteBlocks", give_up)
    size = 700_000
    payloads = {place: payload_of(place, size) for place in range(12)}

    for _ in range(10):
        with pytest.raises(AbortedError, match="the lease was cleared"):
            await client.write_blocks(Lease(id=b"i" * 16), payloads, [size] * 12)


async def test_a_node_that_ends_a_write_early_and_well_is_believed(
    node: FakeNode, client: NodeClient
) -> None:
    """Results that came before the end count, though not every byte was taken."""
    written = WriteBlocksResponse(block_indexes=[0], results=[WRITTEN])
    node.on("WriteBlocks", play(written))
    size = 700_000
    payloads = {place: payload_of(place, size) for place in range(12)}

    for _ in range(10):
        results = await client.write_blocks(Lease(id=b"i" * 16), payloads, [size] * 12)

        assert results == {0: WRITTEN}


async def test_an_offer_that_is_not_answered_is_a_broken_node(
    knowing: FakeNode, client: NodeClient
) -> None:
    """A call that ends without its answer is not taken for a success."""
    knowing.on("WriteBlocks", play())

    with pytest.raises(KvtierError, match="the offer was not answered") as caught:
        await client.store("cpu0", FINGERPRINT, [block_run(1)], [bytes(64)])

    assert caught.value.code is grpc.StatusCode.INTERNAL


async def test_a_store_registers_a_forgotten_namespace_again(
    node: FakeNode, client: NodeClient
) -> None:
    """The whole offer is made once more, with every byte."""
    forgotten = not_found("no such namespace", Reason.NAMESPACE_UNKNOWN)
    writer = Writer(WRITE)
    node.on("RegisterNamespace", lambda _: RegisterNamespaceResponse(fingerprint=FINGERPRINT))
    node.on("WriteBlocks", play(then=forgotten), writer)
    namespace = await client.register_namespace(NAMESPACE)

    report = await client.store("cpu0", namespace, [block_run(1)], [payload_of(0, 64)])

    assert report.results == (STORED,)
    assert writer.requests[0].data == payload_of(0, 64)
    assert node.names().count("RegisterNamespace") == 2
