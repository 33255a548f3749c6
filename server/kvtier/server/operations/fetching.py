"""Fetching blocks from a peer into the slots of a store lease of the node's own."""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import cast

import grpc

from kvtier.server.leases import Lease
from kvtier.server.node import Node
from kvtier.server.peers.peer import Peer, PeerError
from kvtier.server.tiering.carrier import COPIED, CORRUPT, DELETED, FAILED, MISS
from kvtier.server.transfers.writer import BlockWriter
from kvtier.v1.block_pb2 import BlockSet
from kvtier.v1.result_pb2 import (
    READ_RESULT_CORRUPT,
    READ_RESULT_MISS,
    WRITE_RESULT_ABORTED,
    WRITE_RESULT_CORRUPT,
    WRITE_RESULT_WRITTEN,
    CopyResult,
    WriteResult,
)
from kvtier.v1.transfer_service_pb2 import (
    ReadBlocksRequest,
    ReadBlocksResponse,
    ReadTarget,
    WriteBlocksRequest,
)
from kvtier.wire.errors import KvtierError, Reason

Results = dict[int, CopyResult.ValueType]

# A lease outlives a peer that stands still: the peer is given up first.
LEASE_MARGIN = 30.0
_READ = {READ_RESULT_MISS: MISS, READ_RESULT_CORRUPT: CORRUPT}
_WRITTEN = {
    WRITE_RESULT_WRITTEN: COPIED,
    WRITE_RESULT_CORRUPT: CORRUPT,
    WRITE_RESULT_ABORTED: DELETED,
}


@dataclass(slots=True)
class Fetched:
    """What came of the blocks of a lease.

    Attributes:
        results: What became of each block that something is known of, by its place in the lease.
        failure: Why nothing is known of the others.
        heard: Whether the peer said anything.
    """

    results: Results = field(default_factory=dict)
    failure: PeerError | None = None
    heard: bool = False


async def fetch(
    node: Node, peer: Peer, source: str, lease: Lease, blocks: Sequence[BlockSet]
) -> Fetched:
    """Read blocks from a tier of a peer, and publish each as soon as it is whole and verified.

    Args:
        node: The node.
        peer: The peer.
        source: The tier there.
        lease: A store lease on the slots of the blocks, in their order. It may end meanwhile.
        blocks: The blocks.

    Raises:
        KvtierError: UNAVAILABLE when the node has drained.
    """
    target = ReadTarget(tier=source, namespace=lease.namespace.fingerprint, blocks=blocks)
    arrival = _Arrival(node, peer, lease)
    fetched, places = Fetched(arrival.results), range(len(lease.block_bytes))
    try:
        async with peer.reading(ReadBlocksRequest(blocks=target)) as read:
            while (message := await read()) is not None:
                fetched.heard = True
                await arrival.take(message)
        if len(fetched.results) < len(places):
            raise peer.broke("the end came before the last block")
    except PeerError as error:
        if error.reason == Reason.NAMESPACE_UNKNOWN:
            fetched.heard = True
            arrival.say_of_the_rest(MISS)
        else:
            fetched.failure = error
    except _LeaseEndedError:
        arrival.say_of_the_rest(DELETED)
    finally:
        arrival.writer.close()
    return fetched


class _LeaseEndedError(Exception):
    """Somebody ended the lease: a clear, or a release of what its owner has."""


class _Arrival:
    """Takes the messages of one call."""

    def __init__(self, node: Node, peer: Peer, lease: Lease) -> None:
        self.writer = BlockWriter(node.leases, lease, node.threads)
        self.results: Results = {}
        self._node = node
        self._peer = peer
        self._lease = lease
        self._skipped: set[int] = set()

    async def take(self, message: ReadBlocksResponse) -> None:
        node, lease = self._node, self._lease
        if node.leases.get(lease.id) is not lease:
            raise _LeaseEndedError
        node.leases.renew(lease, node.config.peer_timeout + LEASE_MARGIN)
        self._skip(message)
        for part in past_skipped(message, lease.block_bytes, self._skipped):
            written = await self._write(part)
            node.refuse_when_drained()
            done = [place for place, result in written.items() if result == WRITE_RESULT_WRITTEN]
            lease.tier.publish([lease.slots.pop(place) for place in done])
            self.results |= {place: _WRITTEN[result] for place, result in written.items()}

    def say_of_the_rest(self, result: CopyResult.ValueType) -> None:
        for place in range(len(self._lease.block_bytes)):
            self.results.setdefault(place, result)

    def _skip(self, message: ReadBlocksResponse) -> None:
        count = len(self._lease.block_bytes)
        if not (message.data or message.block_indexes):
            raise self._peer.broke("a message says nothing")
        for place, result in zip_longest(message.block_indexes, message.results):
            if place is None or result is None or place >= count:
                raise self._peer.broke(f"it says {result} of block {place} of {count}")
            self._skipped.add(place)
            self.results.setdefault(place, _READ.get(result, FAILED))

    async def _write(self, part: ReadBlocksResponse) -> dict[int, WriteResult.ValueType]:
        try:
            # Both kinds of messages have the fields that say where the data belongs.
            return await self.writer.take(cast("WriteBlocksRequest", part))
        except KvtierError as error:
            if error.code is grpc.StatusCode.ABORTED:
                raise _LeaseEndedError from None
            raise self._peer.broke(error.message) from None


def past_skipped(
    message: ReadBlocksResponse, block_bytes: Sequence[int], skipped: Container[int]
) -> Iterator[ReadBlocksResponse]:
    """Yield a message, or one for each block where its data runs on over blocks that are not sent.

    Args:
        message: The message.
        block_bytes: Bytes of each block of the call.
        skipped: The places of the blocks that are not sent.
    """
    place, offset = message.block_index, message.offset
    end, left = place, len(message.data) + offset
    while left > 0 and end < len(block_bytes):
        left, end = left - block_bytes[end], end + 1
    if not any(each in skipped for each in range(place, end)):
        yield message
        return
    rest, checksums = memoryview(message.data), iter(message.checksums)
    while rest:
        while place in skipped:
            place, offset = place + 1, 0
        size = block_bytes[place] - offset if place < len(block_bytes) else len(rest)
        part, rest = rest[:size], rest[size:]
        told = [next(checksums, 0)] if len(part) == size else []
        yield ReadBlocksResponse(block_index=place, offset=offset, checksums=told, data=bytes(part))
        place, offset = place + 1, 0
