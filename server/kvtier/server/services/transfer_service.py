"""TransferService: moving the bytes of blocks."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager

from kvtier.server.leases import LOAD, STORE, End, Lease, read_lease_id
from kvtier.server.node import Node
from kvtier.server.operations.requests import block_sizes, read_keys, request_digest
from kvtier.server.operations.storing import open_store
from kvtier.server.services.rpc import Send
from kvtier.server.tiers.table import DOOMED
from kvtier.server.tiers.tier import Tier
from kvtier.server.transfers.limit import transfer
from kvtier.server.transfers.patience import patiently, while_time_is_left
from kvtier.server.transfers.reader import BlockReader
from kvtier.server.transfers.writer import BlockWriter
from kvtier.v1.result_pb2 import (
    WRITE_RESULT_ABORTED,
    WRITE_RESULT_INCOMPLETE,
    WRITE_RESULT_STORED,
    WRITE_RESULT_WRITTEN,
    WriteResult,
)
from kvtier.v1.tier_service_pb2 import PrepareStoreRequest, PrepareStoreResponse
from kvtier.v1.transfer_service_pb2 import (
    ReadBlocksRequest,
    ReadBlocksResponse,
    ReadTarget,
    WriteBlocksRequest,
    WriteBlocksResponse,
)
from kvtier.wire.errors import Reason, aborted, failed_precondition, invalid

Results = dict[int, WriteResult.ValueType]


class TransferService:
    """Moves bytes between callers and a node's stores.

    The calls are documented in `kvtier/v1/transfer_service.proto`. A peer that stands still is
    waited for until the lease ends, or for a time where there is none, so that it holds nothing
    for ever.

    Args:
        node: The node.
        patience: How long a peer without a lease may stand still, in seconds.
    """

    def __init__(self, node: Node, patience: float = 30.0) -> None:
        self._node = node
        self._patience = patience

    async def write_blocks(self, requests: AsyncIterator[WriteBlocksRequest], send: Send) -> None:
        """Fill the slots of a lease, or prepare, write and complete an offer."""
        first = await self._first(requests)
        target = first.WhichOneof("target") if first is not None else None
        if first is None or target is None:
            raise invalid("the first message names neither a lease nor an offer")
        with transfer(self._node):
            if target == "lease":
                await self._write_lease(first, requests, send)
            else:
                await self._write_offer(first, requests, send)

    async def read_blocks(self, request: ReadBlocksRequest, send: Send) -> None:
        """Send the bytes of a lease's blocks, or of blocks that the call pins itself."""
        source = request.WhichOneof("source")
        if source is None:
            raise invalid("the request names neither a lease nor blocks")
        with transfer(self._node):
            if source == "lease":
                await self._read_lease(self._node.leases.find(request.lease, LOAD), send)
            else:
                await self._read_target(request.blocks, send)

    async def _write_lease(
        self, first: WriteBlocksRequest, requests: AsyncIterator[WriteBlocksRequest], send: Send
    ) -> None:
        lease = self._node.leases.find(first.lease, STORE)
        writer = BlockWriter(self._node.leases, lease, self._node.threads)
        try:
            async for message in self._messages(first, requests, lease):
                writer.check_open()
                results = await writer.take(message)
                _answer_aliases(lease, results)
                if results:
                    await send(_response(results))
        finally:
            writer.close()

    async def _write_offer(
        self, first: WriteBlocksRequest, requests: AsyncIterator[WriteBlocksRequest], send: Send
    ) -> None:
        lease, prepared = await self._open(first.offer)
        ttl = lease.expires - self._node.clock.monotonic()
        writer = BlockWriter(self._node.leases, lease, self._node.threads)
        how, wanted, answered = End.RELEASED, set(lease.slots), set[int]()
        try:
            response = WriteBlocksResponse(prepared=prepared)
            if not first.data:
                await send(response)
                response = WriteBlocksResponse()
            async for message in self._messages(first, requests, lease):
                writer.check_open()
                self._node.leases.renew(lease, ttl)
                results = await writer.take(message)
                self._node.refuse_when_drained()
                _publish(lease, results)
                answered |= results.keys()
                if results or response.HasField("prepared"):
                    response.MergeFrom(_response(results))
                    await send(response)
                    response = WriteBlocksResponse()
                if answered >= wanted:
                    break
            else:
                writer.check_open()
            incomplete = _incomplete(lease, answered)
            how = End.COMPLETED
        finally:
            writer.close()
            if self._node.leases.get(lease.id) is lease:
                self._node.leases.let_go(lease, how)
                self._node.tiering.write_through(lease.id, lease.tier, lease.offered)
        if incomplete:
            await send(_response(incomplete))

    async def _open(self, offer: PrepareStoreRequest) -> tuple[Lease, PrepareStoreResponse]:
        node, digest = self._node, request_digest(offer)
        async with node.turns.of(read_lease_id(offer.lease_id)):
            if node.leases.first_answer(offer.lease_id, digest) is not None:
                raise failed_precondition(
                    f"lease id {offer.lease_id.hex()} was used before: choose 16 new random bytes "
                    "for each call",
                    Reason.LEASE_REUSED,
                )
            return await open_store(node, offer, digest)

    async def _read_lease(self, lease: Lease, send: Send) -> None:
        slots: list[int | None] = [None] * len(lease.block_bytes)
        for place, slot in lease.slots.items():
            slots[place] = slot
        for place, first in lease.aliases.items():
            slots[place] = slots[first]
        with _held(lease.tier, list(lease.slots.values())):
            async for message in self._read(lease.tier, slots, lease.block_bytes):
                try:
                    await while_time_is_left(send(message), lambda: self._seconds_left(lease))
                except TimeoutError:
                    raise aborted(
                        f"lease {lease.id.hex()} ended while its blocks were read"
                    ) from None

    async def _read_target(self, target: ReadTarget, send: Send) -> None:
        self._node.refuse_when_closing()
        tier, namespace = self._node.tier(target.tier), self._node.registry.get(target.namespace)
        keys = read_keys(self._node, namespace, target.blocks)
        sizes = block_sizes(namespace, target.blocks)
        found = tier.pin(keys)
        try:
            async for message in self._read(tier, found, sizes):
                async with asyncio.timeout(self._patience):
                    await send(message)
        except TimeoutError:
            raise aborted(
                f"nothing was read for {self._patience:g} s: the blocks are not pinned any more"
            ) from None
        finally:
            tier.occupancy.unpin(list({slot for slot in found if slot is not None}))

    def _read(
        self, tier: Tier, slots: Sequence[int | None], block_bytes: Sequence[int]
    ) -> AsyncIterator[ReadBlocksResponse]:
        return BlockReader(tier, slots, block_bytes, self._node.threads).messages()

    async def _first(
        self, requests: AsyncIterator[WriteBlocksRequest]
    ) -> WriteBlocksRequest | None:
        try:
            async with asyncio.timeout(self._patience):
                return await anext(requests, None)
        except TimeoutError:
            raise aborted(f"no message came for {self._patience:g} s") from None

    async def _messages(
        self,
        first: WriteBlocksRequest,
        rest: AsyncIterator[WriteBlocksRequest],
        lease: Lease,
    ) -> AsyncIterator[WriteBlocksRequest]:
        yield first
        try:
            async for message in patiently(rest, lambda: self._seconds_left(lease)):
                if message.WhichOneof("target") is not None:
                    raise invalid("only the first message may name a lease or an offer")
                yield message
        except TimeoutError:
            raise aborted(f"lease {lease.id.hex()} ended while its blocks were written") from None

    def _seconds_left(self, lease: Lease) -> float:
        leases = self._node.leases
        return leases.seconds_left(lease) if leases.get(lease.id) is lease else 0.0


@contextmanager
def _held(tier: Tier, slots: Sequence[int]) -> Iterator[None]:
    tier.occupancy.hold(slots)
    try:
        yield
    finally:
        tier.occupancy.unpin(slots)


def _publish(lease: Lease, results: Results) -> None:
    """Make blocks readable as soon as they are whole, and answer for both places of a key."""
    done = [place for place, result in results.items() if result == WRITE_RESULT_WRITTEN]
    lease.tier.publish([lease.slots.pop(place) for place in done])
    results.update(dict.fromkeys(done, WRITE_RESULT_STORED))
    _answer_aliases(lease, results)


def _answer_aliases(lease: Lease, results: Results) -> None:
    for place, first in lease.aliases.items():
        if first in results:
            results[place] = results[first]


def _incomplete(lease: Lease, answered: set[int]) -> Results:
    """Return the results of the blocks that have none yet."""
    state = lease.tier.table.state
    results = {
        place: WRITE_RESULT_ABORTED if state[slot] == DOOMED else WRITE_RESULT_INCOMPLETE
        for place, slot in lease.slots.items()
        if place not in answered
    }
    _answer_aliases(lease, results)
    return results


def _response(results: Results) -> WriteBlocksResponse:
    return WriteBlocksResponse(block_indexes=results.keys(), results=results.values())
