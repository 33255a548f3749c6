"""TransferService: moving the bytes of blocks."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, contextmanager
from functools import partial

from kvtier.server.leases import LOAD, STORE, End, Lease, read_lease_id
from kvtier.server.node import Node
from kvtier.server.operations.mapping import map_tier
from kvtier.server.operations.requests import block_sizes, read_keys, request_digest
from kvtier.server.operations.storing import open_store
from kvtier.server.services.lease_stream import LeaseStream
from kvtier.server.services.rpc import Send
from kvtier.server.services.tier_service import TierService
from kvtier.server.tiers.table import DOOMED
from kvtier.server.tiers.tier import Tier
from kvtier.server.transfers.limit import transfer
from kvtier.server.transfers.patience import patiently, while_time_is_left
from kvtier.server.transfers.reader import BlockReader, memory_of_read
from kvtier.server.transfers.taking import take_all
from kvtier.server.transfers.writer import (
    MOST_DATA,
    BlockWriter,
    Results,
    lease_ended,
    memory_of_write,
)
from kvtier.v1.block_pb2 import Lease as LeaseReference
from kvtier.v1.lease_stream_pb2 import LeaseBlocksRequest
from kvtier.v1.result_pb2 import (
    WRITE_RESULT_ABORTED,
    WRITE_RESULT_INCOMPLETE,
    WRITE_RESULT_STORED,
    WRITE_RESULT_WRITTEN,
)
from kvtier.v1.tier_service_pb2 import PrepareStoreRequest, PrepareStoreResponse
from kvtier.v1.transfer_service_pb2 import (
    MapTierRequest,
    MapTierResponse,
    ReadBlocksRequest,
    ReadTarget,
    WriteBlocksRequest,
    WriteBlocksResponse,
)
from kvtier.wire.chunks import Chunk, split
from kvtier.wire.errors import Reason, aborted, failed_precondition, invalid

# What makes requests of bytes, where that is not the generated class: see `add_service`.
PARSERS = {WriteBlocksRequest.DESCRIPTOR.full_name: partial(split, WriteBlocksRequest)}

# A message without its data, and the data.
Written = tuple[WriteBlocksRequest, memoryview]


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
        self._calls = TierService(node)
        self._patience = patience

    async def write_blocks(self, requests: AsyncIterator[Written], send: Send) -> None:
        """Fill the slots of a lease, or prepare, write and complete an offer."""
        first = await self._first(requests)
        target = first[0].WhichOneof("target") if first is not None else None
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
                await self._read_lease(request.lease, send)
            else:
                await self._read_target(request.blocks, send)

    def map_tier(self, request: MapTierRequest) -> MapTierResponse:
        """Tell where a tier's memory is."""
        return map_tier(self._node, request)

    async def lease_blocks(self, requests: AsyncIterator[LeaseBlocksRequest], send: Send) -> None:
        """Serve many calls of leases on one stream."""
        await LeaseStream(self._node, self._calls, send, self._patience).serve(requests)

    async def _write_lease(
        self, first: Written, requests: AsyncIterator[Written], send: Send
    ) -> None:
        lease = self._node.leases.find(first[0].lease, STORE)
        async with self._share_of_write(lease.tier, lease.block_bytes):
            writer = self._writer(self._node.leases.find(first[0].lease, STORE))
            try:
                async with self._taking(writer, self._chunks(first, requests, lease)) as taken:
                    async for results in taken:
                        _answer_aliases(lease, results)
                        if results:
                            await send(_response(results))
            finally:
                writer.close()

    async def _write_offer(
        self, first: Written, requests: AsyncIterator[Written], send: Send
    ) -> None:
        offer = first[0].offer
        # The bytes come through this call, which ends the lease as it ends itself.
        offer.ClearField("locate")
        tier, namespace = self._node.tier(offer.tier), self._node.registry.get(offer.namespace)
        async with self._share_of_write(tier, namespace.block_bytes):
            lease, prepared = await self._open(offer)
            await self._fill(lease, prepared, first, requests, send)

    async def _fill(
        self,
        lease: Lease,
        prepared: PrepareStoreResponse,
        first: Written,
        requests: AsyncIterator[Written],
        send: Send,
    ) -> None:
        """Write what an offer reserved, and end its lease."""
        ttl = lease.expires - self._node.clock.monotonic()
        writer = self._writer(lease)
        how, wanted, answered = End.RELEASED, set(lease.slots), set[int]()
        try:
            response = WriteBlocksResponse(prepared=prepared)
            if not first[1]:
                await send(response)
                response = WriteBlocksResponse()
            chunks = self._chunks(first, requests, lease, ttl)
            async with self._taking(writer, chunks) as taken:
                async for results in taken:
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
            self._node.tiering.completed(lease.id, lease.tier, lease.offered)
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

    async def _read_lease(self, reference: LeaseReference, send: Send) -> None:
        lease = self._node.leases.find(reference, LOAD)

        async def send_in_time(message: bytes) -> None:
            try:
                await while_time_is_left(send(message), lambda: self._seconds_left(lease))
            except TimeoutError:
                raise aborted(f"lease {lease.id.hex()} ended while its blocks were read") from None

        async with self._share_of_read(lease.tier, lease.block_bytes):
            self._node.leases.find(reference, LOAD)
            with _held(lease.tier, list(lease.slots.values())):
                reader = self._reader(lease.tier, _slots_of(lease), lease.block_bytes)
                await reader.send_all(send_in_time)

    async def _read_target(self, target: ReadTarget, send: Send) -> None:
        self._node.refuse_when_closing()
        tier, namespace = self._node.tier(target.tier), self._node.registry.get(target.namespace)
        keys = read_keys(self._node, namespace, target.blocks)
        sizes = block_sizes(namespace, target.blocks)
        async with self._share_of_read(tier, sizes):
            results, found = tier.pin(keys)
            self._node.demand.count_load(tier, results, recovering=tier.health.recovering)
            try:
                await self._reader(tier, found, sizes).send_all(partial(self._send_soon, send))
            finally:
                tier.occupancy.unpin(list({slot for slot in found if slot is not None}))

    async def _send_soon(self, send: Send, message: bytes) -> None:
        try:
            async with asyncio.timeout(self._patience):
                await send(message)
        except TimeoutError:
            raise aborted(
                f"nothing was read for {self._patience:g} s: the blocks are not pinned any more"
            ) from None

    def _share_of_write(
        self, tier: Tier, block_bytes: Sequence[int]
    ) -> AbstractAsyncContextManager[None]:
        return self._node.write_bytes.share(memory_of_write(tier, block_bytes))

    def _writer(self, lease: Lease) -> BlockWriter:
        return BlockWriter(self._node.leases, lease, self._node.threads)

    def _taking(
        self, writer: BlockWriter, chunks: AsyncIterator[Chunk]
    ) -> AbstractAsyncContextManager[AsyncGenerator[Results, None]]:
        return aclosing(take_all(writer, chunks, self._node.write_bytes))

    def _share_of_read(
        self, tier: Tier, block_bytes: Sequence[int]
    ) -> AbstractAsyncContextManager[None]:
        return self._node.read_bytes.share(memory_of_read(tier, block_bytes))

    def _reader(
        self, tier: Tier, slots: Sequence[int | None], block_bytes: Sequence[int]
    ) -> BlockReader:
        node = self._node
        return BlockReader(tier, slots, block_bytes, node.threads, node.read_bytes)

    async def _first(self, requests: AsyncIterator[Written]) -> Written | None:
        try:
            async with asyncio.timeout(self._patience):
                return await anext(requests, None)
        except TimeoutError:
            raise aborted(f"no message came for {self._patience:g} s") from None

    async def _chunks(
        self,
        first: Written,
        rest: AsyncIterator[Written],
        lease: Lease,
        ttl: float | None = None,
    ) -> AsyncIterator[Chunk]:
        """Yield what messages bring while a lease is open, which each gives a new time to live."""
        yield self._chunk(first, lease, ttl)
        try:
            async for message in patiently(rest, lambda: self._seconds_left(lease)):
                if message[0].WhichOneof("target") is not None:
                    raise invalid("only the first message may name a lease or an offer")
                yield self._chunk(message, lease, ttl)
        except TimeoutError:
            raise lease_ended(lease) from None

    def _chunk(self, message: Written, lease: Lease, ttl: float | None) -> Chunk:
        chunk = _chunk(*message)
        if self._node.leases.get(lease.id) is not lease:
            raise lease_ended(lease)
        if ttl is not None:
            self._node.leases.renew(lease, ttl)
        return chunk

    def _seconds_left(self, lease: Lease) -> float:
        leases = self._node.leases
        return leases.seconds_left(lease) if leases.get(lease.id) is lease else 0.0


def _chunk(message: WriteBlocksRequest, data: memoryview) -> Chunk:
    """Return what a message brings, which stays in memory until the next has come."""
    if len(data) > MOST_DATA:
        raise invalid(
            f"data has {len(data)} bytes; send at most {MOST_DATA} in one message, and the rest "
            "in others"
        )
    return Chunk(message.block_index, message.offset, message.checksums, data)


def _slots_of(lease: Lease) -> list[int | None]:
    """Return the slot of each block of a load lease, by place."""
    slots: list[int | None] = [None] * len(lease.block_bytes)
    for place, slot in lease.slots.items():
        slots[place] = slot
    for place, first in lease.aliases.items():
        slots[place] = slots[first]
    return slots


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
