"""Moving bytes to and from a node."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import grpc
import pytest
import xxhash

from kvtier.client import (
    AbortedError,
    DeadlineError,
    ExhaustedError,
    InvalidArgumentError,
    KvtierError,
    NodeClient,
    NotFoundError,
    block_sizes,
)
from kvtier.v1.block_pb2 import BlockSet, Lease, NamespacedBlocks
from kvtier.v1.namespace_pb2 import Namespace
from kvtier.v1.result_pb2 import ReadResult, StoreOutcome, WriteResult
from kvtier.v1.tier_service_pb2 import (
    ListNamespacesResponse,
    PrepareStoreResponse,
    RegisterNamespaceResponse,
)
from kvtier.v1.transfer_service_pb2 import (
    ReadBlocksResponse,
    WriteBlocksRequest,
    WriteBlocksResponse,
)
from kvtier.wire.errors import Reason, aborted, exhausted, not_found
from kvtier.wire.namespaces import fingerprint

from .fakes import FakeNode, Handler, play
from .messages import FINGERPRINT, NAMESPACE, block_run, block_set

WRITE, PRESENT = StoreOutcome.STORE_OUTCOME_WRITE, StoreOutcome.STORE_OUTCOME_PRESENT
STORED, WRITTEN = WriteResult.WRITE_RESULT_STORED, WriteResult.WRITE_RESULT_WRITTEN
DAMAGED = WriteResult.WRITE_RESULT_CORRUPT
NOTHING = WriteResult.WRITE_RESULT_UNSPECIFIED
MISS, CORRUPT = ReadResult.READ_RESULT_MISS, ReadResult.READ_RESULT_CORRUPT

MIB = 1 << 20
LARGE = Namespace()
LARGE.CopyFrom(NAMESPACE)
LARGE.name = "large"
del LARGE.block_bytes[:]
LARGE.block_bytes.append(700_000)
LARGE_FINGERPRINT = fingerprint(LARGE)


def _payload(place: int, size: int) -> bytes:
    return bytes([place + 1]) * size


def _read(chunks: Sequence[Any], sizes: Sequence[int]) -> dict[int, bytes]:
    """Return the bytes of each block as a receiver that goes by places alone would."""
    found: dict[int, bytearray] = {}
    for chunk in chunks:
        place, offset, data = chunk.block_index, chunk.offset, chunk.data
        while data:
            block = found.setdefault(place, bytearray())
            assert len(block) == offset
            piece = data[: sizes[place] - offset]
            block += piece
            data, place, offset = data[len(piece) :], place + 1, 0
    return {place: bytes(block) for place, block in found.items()}


class Writer:
    """The receiving end of WriteBlocks.

    Attributes:
        requests: What came.
        before: How many requests had come when the offer was answered.
    """

    def __init__(self, *outcomes: StoreOutcome.ValueType, evicted: bytes = b"") -> None:
        self.requests: list[WriteBlocksRequest] = []
        self.before = 0
        self._outcomes = outcomes
        self._evicted = evicted

    async def __call__(self, requests: AsyncIterator[Any]) -> AsyncIterator[WriteBlocksResponse]:
        async for request in requests:
            self.requests.append(request)
            if request.HasField("offer"):
                self.before = len(self.requests)
                yield WriteBlocksResponse(prepared=self._prepared())
        wanted = [i for i, outcome in enumerate(self._outcomes) if outcome == WRITE]
        for place in wanted:
            yield WriteBlocksResponse(block_indexes=[place], results=[STORED])

    def _prepared(self) -> PrepareStoreResponse:
        evicted = [NamespacedBlocks(blocks=BlockSet(block_hashes=self._evicted))]
        return PrepareStoreResponse(
            outcomes=self._outcomes, evicted=evicted if self._evicted else []
        )


@pytest.fixture
def knowing(node: FakeNode) -> FakeNode:
    """Return a node that knows the test's namespaces."""
    known = ListNamespacesResponse(namespaces=[NAMESPACE, LARGE])
    node.on("ListNamespaces", lambda _: known)
    return node


async def test_small_blocks_go_with_the_offer(knowing: FakeNode, client: NodeClient) -> None:
    """One message carries the offer and every byte; the answer tells what was wanted."""
    writer = Writer(WRITE, PRESENT, WRITE, evicted=b"12345678")
    knowing.on("WriteBlocks", writer)
    payloads = [_payload(0, 64), _payload(1, 64), _payload(2, 128)]

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
    """No byte of a block that is there already crosses the wire, and no chunk exceeds 1 MiB."""
    writer = Writer(WRITE, WRITE, PRESENT, WRITE)
    knowing.on("WriteBlocks", writer)
    payloads = [_payload(place, 700_000) for place in range(4)]

    report = await client.store("cpu0", LARGE_FINGERPRINT, [block_run(1, 2, 3, 4)], payloads)

    first, *chunks = writer.requests
    assert writer.before == 1
    assert first.data == b""
    assert max(len(chunk.data) for chunk in chunks) == MIB
    found = _read(chunks, [700_000] * 4)
    assert found == {place: payloads[place] for place in (0, 1, 3)}
    assert report.results == (STORED, STORED, NOTHING, STORED)


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
    assert _read(chunks, sizes) == {0: b"000", 2: b"22222", 3: b"333333"}
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
    payloads = [_payload(place, 700_000) for place in range(2)]
    before = asyncio.all_tasks()

    with pytest.raises(ExhaustedError) as caught:
        await client.store("cpu0", LARGE_FINGERPRINT, [block_run(1, 2)], payloads)
    await asyncio.sleep(0.05)

    assert caught.value.retry_after == 0.5
    assert caught.value.metadata["pinned"] == "4"
    assert not [task for task in asyncio.all_tasks() - before if "_consume_request" in repr(task)]


async def test_an_offer_that_is_not_answered_is_a_broken_node(
    knowing: FakeNode, client: NodeClient
) -> None:
    """A call that ends without its answer is not taken for a success."""
    knowing.on("WriteBlocks", play())

    with pytest.raises(KvtierError, match="the offer was not answered") as caught:
        await client.store("cpu0", FINGERPRINT, [block_run(1)], [bytes(64)])

    assert caught.value.code is grpc.StatusCode.INTERNAL


def _sender(sizes: Sequence[int], missing: Sequence[int] = (), chunk: int = 100) -> Handler:
    """Return a handler that sends blocks, running on over those that are missing."""

    async def send(_: Any) -> AsyncIterator[ReadBlocksResponse]:
        yield ReadBlocksResponse(block_indexes=missing, results=[MISS] * len(missing))
        places = [place for place in range(len(sizes)) if place not in missing]
        stream = [(p, o, _payload(p, sizes[p])[o]) for p in places for o in range(sizes[p])]
        for start in range(0, len(stream), chunk):
            part = stream[start : start + chunk]
            yield ReadBlocksResponse(
                block_index=part[0][0],
                offset=part[0][1],
                checksums=[
                    xxhash.xxh3_64_intdigest(_payload(p, sizes[p]))
                    for p, o, _ in part
                    if o == sizes[p] - 1
                ],
                data=bytes(byte for _, _, byte in part),
            )

    return send


async def test_a_load_brings_every_block_that_is_there(
    knowing: FakeNode, client: NodeClient
) -> None:
    """Present blocks are whole, an absent one is a MISS, and fails nothing else."""
    blocks = [block_set(1, 2), block_set(3, group=1)]
    knowing.on("ReadBlocks", _sender([64, 64, 128], missing=[1]))

    report = await client.load("cpu0", FINGERPRINT, blocks)

    (request,) = knowing.requests("ReadBlocks")
    assert request.blocks.tier == "cpu0"
    assert list(request.blocks.blocks) == blocks
    assert report.payloads == (_payload(0, 64), None, _payload(2, 128))
    assert report.results == (ReadResult.READ_RESULT_UNSPECIFIED, MISS, 0)


async def test_blocks_of_an_open_lease_are_read(node: FakeNode, client: NodeClient) -> None:
    """The sizes tell where one block ends and the next begins."""
    sizes = block_sizes(NAMESPACE, [block_set(1, 2)])
    node.on("ReadBlocks", _sender(sizes, chunk=7))
    lease = Lease(id=b"i" * 16, generation=5)

    report = await client.read_blocks(lease, sizes)

    assert node.requests("ReadBlocks")[0].lease == lease
    assert report.payloads == (_payload(0, 64), _payload(1, 64))


async def test_bytes_that_changed_on_the_way_are_not_delivered(
    knowing: FakeNode, client: NodeClient
) -> None:
    """A checksum that does not match makes that block CORRUPT."""
    good, bad = _payload(0, 64), _payload(1, 64)
    checksums = [xxhash.xxh3_64_intdigest(good), xxhash.xxh3_64_intdigest(b"other")]
    knowing.on("ReadBlocks", play(ReadBlocksResponse(checksums=checksums, data=good + bad)))

    report = await client.load("cpu0", FINGERPRINT, [block_set(1, 2)])

    assert report.payloads == (good, None)
    assert report.results == (0, CORRUPT)


async def test_a_lease_that_ends_in_the_middle_of_a_read_raises(
    node: FakeNode, client: NodeClient
) -> None:
    """What was read so far may have changed, and is not handed out."""
    part = ReadBlocksResponse(data=bytes(10))
    node.on("ReadBlocks", play(part, then=aborted("the lease expired")))

    with pytest.raises(AbortedError, match="the lease expired"):
        await client.read_blocks(Lease(id=b"i" * 16), [64])


async def test_a_read_that_ends_early_raises(knowing: FakeNode, client: NodeClient) -> None:
    """Half a block is no block."""
    knowing.on("ReadBlocks", play(ReadBlocksResponse(data=bytes(10))))

    with pytest.raises(KvtierError, match="the end came before block 0 of 1"):
        await client.load("cpu0", FINGERPRINT, [block_set(1)])


async def _stall(requests: Any) -> AsyncIterator[Any]:
    await asyncio.Event().wait()
    yield WriteBlocksResponse()


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.store("cpu0", FINGERPRINT, [block_run(1)], [bytes(64)]),
        lambda client: client.write_blocks(Lease(id=b"i" * 16), {0: b"x"}, [1]),
        lambda client: client.load("cpu0", FINGERPRINT, [block_set(1)]),
        lambda client: client.read_blocks(Lease(id=b"i" * 16), [1]),
    ],
)
async def test_a_transfer_that_stands_still_ends(
    knowing: FakeNode, call: Callable[[NodeClient], Any]
) -> None:
    """A node that stops in the middle costs the caller its timeout."""
    knowing.on("WriteBlocks", _stall)
    knowing.on("ReadBlocks", _stall)
    started = time.monotonic()

    async with NodeClient(knowing.endpoint, timeout=0.3) as client:
        with pytest.raises(DeadlineError, match=f"{knowing.endpoint} stood still for 0.3 s"):
            await call(client)

    assert time.monotonic() - started < 5


async def test_a_transfer_may_take_longer_than_the_timeout_while_it_moves(
    knowing: FakeNode,
) -> None:
    """The timeout counts from the last message, not from the start."""

    async def slow(_: Any) -> AsyncIterator[ReadBlocksResponse]:
        data = _payload(0, 64)
        for offset in range(64):
            await asyncio.sleep(0.02)
            checksums = [xxhash.xxh3_64_intdigest(data)] if offset == 63 else []
            piece = data[offset : offset + 1]
            yield ReadBlocksResponse(offset=offset, checksums=checksums, data=piece)

    knowing.on("ReadBlocks", slow)
    async with NodeClient(knowing.endpoint, timeout=0.6) as client:
        started = time.monotonic()

        report = await client.load("cpu0", FINGERPRINT, [block_set(1)])

    assert time.monotonic() - started > 0.6
    assert report.payloads == (_payload(0, 64),)


async def test_a_namespace_that_nobody_knows_is_told_before_a_transfer(
    node: FakeNode, client: NodeClient
) -> None:
    """Without a description the sizes are unknown; the error says what to do."""
    with pytest.raises(
        NotFoundError, match=r"is not registered at .*; register it first"
    ) as caught:
        await client.load("cpu0", FINGERPRINT, [block_set(1)])

    assert caught.value.reason == Reason.NAMESPACE_UNKNOWN


async def test_a_store_registers_a_forgotten_namespace_again(
    node: FakeNode, client: NodeClient
) -> None:
    """The whole offer is made once more, with every byte."""
    forgotten = not_found("no such namespace", Reason.NAMESPACE_UNKNOWN)
    writer = Writer(WRITE)
    node.on("RegisterNamespace", lambda _: RegisterNamespaceResponse(fingerprint=FINGERPRINT))
    node.on("WriteBlocks", play(then=forgotten), writer)
    namespace = await client.register_namespace(NAMESPACE)

    report = await client.store("cpu0", namespace, [block_run(1)], [_payload(0, 64)])

    assert report.results == (STORED,)
    assert writer.requests[0].data == _payload(0, 64)
    assert node.names().count("RegisterNamespace") == 2


async def test_bulk_has_a_connection_of_its_own(knowing: FakeNode, client: NodeClient) -> None:
    """Transfers share their connection, and not with calls or events; it opens when needed."""
    knowing.on("ReadBlocks", _sender([64]))
    await client.get_node()
    connections = {peer for _, peer in knowing.peers}
    assert len(connections) == 1

    await client.load("cpu0", FINGERPRINT, [block_set(1)])
    await client.load("cpu0", FINGERPRINT, [block_set(1)])

    bulk = {peer for name, peer in knowing.peers if name == "ReadBlocks"}
    others = {peer for name, peer in knowing.peers if name != "ReadBlocks"}
    assert len(bulk) == 1
    assert others == connections
    assert not bulk & others
