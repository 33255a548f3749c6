"""Fetching blocks from a peer into the slots of a store lease of the node's own."""

from collections.abc import AsyncIterator, Awaitable, Callable, Container, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import zip_longest

import grpc

from kvtier.server.leases import End, Lease
from kvtier.server.node import Node
from kvtier.server.peers.peer import Message, Peer, PeerError, Reading
from kvtier.server.tiering.carrier import COPIED, CORRUPT, DELETED, FAILED, MISS
from kvtier.server.transfers.taking import take_all
from kvtier.server.transfers.writer import BlockWriter, Results
from kvtier.v1.result_pb2 import (
    READ_RESULT_CORRUPT,
    READ_RESULT_MISS,
    WRITE_RESULT_ABORTED,
    WRITE_RESULT_CORRUPT,
    WRITE_RESULT_FAILED,
    WRITE_RESULT_WRITTEN,
    CopyResult,
)
from kvtier.v1.transfer_service_pb2 import (
    ReadBlocksRequest,
    ReadBlocksResponse,
    ReadTarget,
)
from kvtier.wire.chunks import Chunk
from kvtier.wire.errors import KvtierError, Reason

# What became of blocks, by their numbers among those that the peer was asked for.
ByNumber = dict[int, CopyResult.ValueType]

# Takes slots for what is sent, given what is not; returns a lease on them, by the blocks' numbers,
# and what is to be said of the blocks that got none.
Reserve = Callable[[Container[int]], Awaitable[tuple[Lease, ByNumber]]]

# A lease outlives a peer that stands still: the peer is given up first.
LEASE_MARGIN = 30.0
_TOO_EARLY = "the end came before the last block"
_READ = {READ_RESULT_MISS: MISS, READ_RESULT_CORRUPT: CORRUPT}
_WRITTEN = {
    WRITE_RESULT_WRITTEN: COPIED,
    WRITE_RESULT_CORRUPT: CORRUPT,
    WRITE_RESULT_FAILED: FAILED,
    WRITE_RESULT_ABORTED: DELETED,
}


@dataclass(slots=True)
class Fetched:
    """What came of blocks that a peer was asked for.

    Attributes:
        results: What became of each block that something is known of, by its number.
        failure: Why nothing is known of the others.
        heard: Whether the peer said anything.
    """

    results: ByNumber = field(default_factory=dict)
    failure: PeerError | None = None
    heard: bool = False


async def fetch(
    node: Node,
    peer: Peer,
    wanted: ReadTarget,
    count: int,
    reserve: Reserve,
    *,
    memory: int,
    into: Fetched,
) -> None:
    """Read blocks from a peer, and publish each as soon as it is whole and verified.

    Args:
        node: The node.
        peer: The peer.
        wanted: The blocks.
        count: How many these are.
        reserve: Called with the first message of the peer, so that no room is taken for a peer that
            says nothing, nor for blocks that it has not.
        memory: Bytes that the blocks need in memory on their way.
        into: Where it is noted what came, so that it is known however the call ends.

    Raises:
        KvtierError: UNAVAILABLE when the node has drained.
    """
    fetched, lease = into, None
    try:
        async with peer.reading(ReadBlocksRequest(blocks=wanted)) as reading:
            message = await reading.next()
            fetched.heard = True
            if message is None:
                raise reading.broke(_TOO_EARLY)
            # Not before: a peer that says nothing shall hold up no store.
            async with node.write_bytes.share(memory):
                lease, fetched.results = await reserve(_skipped(reading, message[0], count))
                arrival = _Arrival(node, reading, lease, fetched.results)
                try:
                    await arrival.take_all(message)
                finally:
                    arrival.writer.close()
    except PeerError as error:
        if error.reason == Reason.NAMESPACE_UNKNOWN:
            fetched.heard = True
            fetched.results = dict.fromkeys(range(count), MISS) | fetched.results
        else:
            # What it went through leads to the messages, and back to what is noted here.
            fetched.failure = error.with_traceback(None)
    except _LeaseEndedError:
        fetched.results = dict.fromkeys(range(count), DELETED) | fetched.results
    finally:
        if lease is not None and node.leases.get(lease.id) is lease:
            node.leases.let_go(lease, End.COMPLETED)


def _skipped(reading: Reading, message: ReadBlocksResponse, count: int) -> ByNumber:
    """Return what a message says of blocks that are not sent."""
    results: ByNumber = {}
    for place, result in zip_longest(message.block_indexes, message.results):
        if place is None or result is None or place >= count:
            raise reading.broke(f"it says {result} of block {place} of {count}")
        results[place] = _READ.get(result, FAILED)
    return results


class _LeaseEndedError(Exception):
    """Somebody ended the lease: a clear, or a release of what its owner has."""


class _Arrival:
    """Takes the messages of one call."""

    def __init__(self, node: Node, reading: Reading, lease: Lease, results: ByNumber) -> None:
        self.writer = BlockWriter(node.leases, lease, node.threads)
        self._results = results
        self._node = node
        self._reading = reading
        self._lease = lease
        self._skipped: set[int] = set()

    async def take_all(self, first: Message) -> None:
        """Take a message and those that follow, until something is known of every block."""
        parts = self._parts(first)
        try:
            async with aclosing(take_all(self.writer, parts, self._node.write_bytes)) as taken:
                async for written in taken:
                    self._publish(written)
                    if self._complete:
                        break
        except KvtierError as error:
            raise self._meaning(error) from None
        if not self._complete:
            raise self._reading.broke(_TOO_EARLY)

    @property
    def _complete(self) -> bool:
        return len(self._results) == len(self._lease.block_bytes)

    async def _parts(self, first: Message) -> AsyncIterator[Chunk]:
        message: Message | None = first
        while message is not None:
            for part in self._read(message):
                yield part
            message = None if self._complete else await self._reading.next()

    def _read(self, message: Message) -> Iterator[Chunk]:
        """Return the data of a message, and note of which blocks there is none."""
        node, lease, (about, data) = self._node, self._lease, message
        if node.leases.get(lease.id) is not lease:
            raise _LeaseEndedError
        node.leases.renew(lease, node.config.peer_timeout + LEASE_MARGIN)
        if not (data or about.block_indexes):
            raise self._reading.broke("a message says nothing")
        skipped = _skipped(self._reading, about, len(lease.block_bytes))
        self._skipped |= skipped.keys()
        for place, result in skipped.items():
            self._results.setdefault(place, result)
        chunk = Chunk(about.block_index, about.offset, about.checksums, data)
        return past_skipped(chunk, lease.block_bytes, self._skipped)

    def _publish(self, written: Results) -> None:
        """Make blocks readable as soon as they are whole."""
        self._node.refuse_when_drained()
        lease = self._lease
        done = [place for place, result in written.items() if result == WRITE_RESULT_WRITTEN]
        lease.tier.publish([lease.slots.pop(place) for place in done])
        for place, outcome in written.items():
            self._results.setdefault(place, _WRITTEN[outcome])

    def _meaning(self, error: KvtierError) -> Exception:
        """Return what an error of reading or writing says of the peer, or of the lease."""
        if isinstance(error, PeerError):
            return error
        if error.code is grpc.StatusCode.ABORTED:
            return _LeaseEndedError()
        if error.code is grpc.StatusCode.INVALID_ARGUMENT:
            return self._reading.broke(error.message)
        return error


def past_skipped(
    chunk: Chunk, block_bytes: Sequence[int], skipped: Container[int]
) -> Iterator[Chunk]:
    """Yield a chunk, or one for each block where its data runs on over blocks that are not sent.

    Data that belongs nowhere is yielded as it is, for the writer to refuse.

    Args:
        chunk: The data of a message.
        block_bytes: Bytes of each block of the call.
        skipped: The places of the blocks that are not sent.
    """
    place, offset = chunk.block_index, chunk.offset
    end, left = place, len(chunk.data) + offset
    while left > 0 and end < len(block_bytes):
        left, end = left - block_bytes[end], end + 1
    if not any(each in skipped for each in range(place, end)):
        yield chunk
        return
    rest, checksums = memoryview(chunk.data), iter(chunk.checksums)
    while rest:
        while place in skipped:
            place, offset = place + 1, 0
        size = block_bytes[place] - offset if place < len(block_bytes) else len(rest)
        if size <= 0:
            yield chunk
            return
        part, rest = rest[:size], rest[size:]
        yield Chunk(place, offset, [next(checksums, 0)] if len(part) == size else [], part)
        place, offset = place + 1, 0
