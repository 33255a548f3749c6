"""Calls that move blocks' bytes."""

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import grpc
import grpc.aio
from xxhash import xxh3_64_intdigest

from kvtier.client.arguments import bad_argument, build, view_bytes
from kvtier.client.calls import Calls
from kvtier.client.chunks import CHUNK_BYTES, Assembly, Chunk, block_sizes, cut, framing_error
from kvtier.client.ending import answers
from kvtier.client.errors import typed
from kvtier.client.reports import LoadReport, StoreReport
from kvtier.v1.block_pb2 import BlockRun, BlockSet, Lease
from kvtier.v1.result_pb2 import StoreOutcome, WriteResult
from kvtier.v1.tier_service_pb2 import (
    PrepareStoreRequest,
    PrepareStoreResponse,
)
from kvtier.v1.transfer_service_pb2 import (
    MapTierRequest,
    MapTierResponse,
    ReadBlocksRequest,
    ReadTarget,
    WriteBlocksRequest,
    WriteBlocksResponse,
)
from kvtier.wire.errors import quote

if TYPE_CHECKING:
    from typing_extensions import Buffer

# With so little to send, waiting for the answer costs more than sending what is not wanted.
EAGER_BYTES = CHUNK_BYTES

_UNWRITTEN = WriteResult.WRITE_RESULT_UNSPECIFIED

Moved = Callable[[], None]


class TransferCalls(Calls):
    """Moving bytes, over a connection of its own.

    A transfer may take as long as it moves: one that stands still for the client's timeout ends
    with `DeadlineError`, as does a store of up to 1 MiB that is not answered within it.
    """

    async def store(
        self,
        tier: str,
        namespace: bytes,
        runs: Sequence[BlockRun],
        payloads: Sequence["Buffer"],
        *,
        lease_id: bytes | None = None,
        ttl: float | None = None,
        request_id: str = "",
    ) -> StoreReport:
        """Offer blocks, write those that are wanted, and make them readable, in one call.

        Args:
            tier: The tier's name.
            namespace: The fingerprint, 32 bytes.
            runs: What is offered; blocks are numbered by their place over all runs.
            payloads: The bytes of each block, in the same order.
            lease_id: 16 random bytes; None makes new ones.
            ttl: Seconds that the lease lives, should this client vanish in between.
            request_id: The request whose blocks these are, for recency.
        """
        offer = self._offer(
            tier, namespace, runs, lease_id=lease_id, ttl=ttl, request_id=request_id
        )
        sizes = block_sizes(await self._connection.describe(offer.namespace), offer.runs)
        if len(payloads) != len(sizes):
            raise bad_argument(
                f"payloads has {len(payloads)} entries; runs has {len(sizes)} blocks"
            )
        whole = _whole(payloads, sizes)
        return await self._connection.remembering(
            offer.namespace, lambda: self._write_offer(offer, whole)
        )

    async def write_blocks(
        self, lease: Lease, payloads: Mapping[int, "Buffer"], block_bytes: Sequence[int]
    ) -> dict[int, WriteResult.ValueType]:
        """Fill slots of an open store lease, and return what became of each block.

        Args:
            lease: The lease, from the answer of `prepare_store`.
            payloads: The bytes of blocks by their place in the offer.
            block_bytes: The size of every block of the offer, as `block_sizes` tells it.
        """
        first = build(WriteBlocksRequest, lease=lease)
        views = _views(payloads, block_bytes)
        results: dict[int, WriteResult.ValueType] = {}
        async with self._moving() as moved:
            call = self._connection.transfers.WriteBlocks(_lease_requests(first, views, moved))
            async for answer in answers(call):
                moved()
                results.update(zip(answer.block_indexes, answer.results, strict=False))
        return results

    async def load(self, tier: str, namespace: bytes, blocks: Sequence[BlockSet]) -> LoadReport:
        """Read blocks, which the node pins for the time of the call.

        Args:
            tier: The tier's name.
            namespace: The fingerprint, 32 bytes.
            blocks: The blocks, numbered by their place over all sets.
        """
        target = build(ReadTarget, tier=tier, namespace=namespace, blocks=blocks)
        sizes = block_sizes(await self._connection.describe(target.namespace), target.blocks)
        request = ReadBlocksRequest(blocks=target)
        return await self._connection.remembering(
            target.namespace, lambda: self._read(request, sizes)
        )

    async def map_tier(self, tier: str) -> MapTierResponse:
        """Tell where a tier's memory is, for a caller on the same host; see `blocks`.

        Raises:
            FailedPreconditionError: When the tier cannot be mapped.
        """
        request = build(MapTierRequest, tier=tier)
        return await self._connection.call(self._connection.transfers.MapTier, request)

    async def read_blocks(self, lease: Lease, block_bytes: Sequence[int]) -> LoadReport:
        """Read the blocks of an open load lease.

        Args:
            lease: The lease, from the answer of `prepare_load`.
            block_bytes: The size of every block of its request, as `block_sizes` tells it.
        """
        return await self._read(build(ReadBlocksRequest, lease=lease), block_bytes)

    async def _write_offer(
        self, offer: PrepareStoreRequest, payloads: Sequence[bytes | memoryview]
    ) -> StoreReport:
        if sum(map(len, payloads)) > EAGER_BYTES:
            views = {place: memoryview(payload) for place, payload in enumerate(payloads)}
            return await self._write_in_turns(WriteBlocksRequest(offer=offer), views)
        first = WriteBlocksRequest(
            offer=offer, checksums=map(xxh3_64_intdigest, payloads), data=b"".join(payloads)
        )
        try:
            answer = await self._connection.write_at_once(first, timeout=self._connection.timeout)
        except grpc.aio.AioRpcError as error:
            raise self._connection.failure(error) from None
        if answer is None or not answer.HasField("prepared"):
            raise framing_error("the offer was not answered")
        results = dict(zip(answer.block_indexes, answer.results, strict=False))
        return _report(answer.prepared, results)

    async def _write_in_turns(
        self, first: WriteBlocksRequest, views: Mapping[int, memoryview]
    ) -> StoreReport:
        prepared: asyncio.Future[PrepareStoreResponse] = asyncio.Future()
        async with self._moving() as moved:
            requests = _offer_requests(first, views, prepared, moved)
            try:
                call = self._connection.transfers.WriteBlocks(requests)
                return await _collect(answers(call), prepared, moved)
            finally:
                # Else the writer would wait for ever for the answer to an offer that failed.
                prepared.cancel()

    async def _read(self, request: ReadBlocksRequest, sizes: Sequence[int]) -> LoadReport:
        assembly = Assembly(sizes)
        async with self._moving() as moved:
            call = self._connection.transfers.ReadBlocks(request)
            try:
                async for answer in call:
                    moved()
                    assembly.skip(answer.block_indexes, answer.results)
                    assembly.add(
                        Chunk(answer.block_index, answer.offset, answer.checksums, answer.data)
                    )
            finally:
                call.cancel()
        assembly.end()
        return LoadReport(tuple(assembly.payloads), tuple(assembly.results))

    @asynccontextmanager
    async def _moving(self) -> AsyncGenerator[Moved, None]:
        """Raise what a transfer fails with; it has `timeout` seconds from each call of `moved`."""
        loop, timeout = asyncio.get_running_loop(), self._connection.timeout
        try:
            async with asyncio.timeout(timeout) as limit:

                def moved() -> None:
                    if not limit.expired():
                        limit.reschedule(loop.time() + timeout)

                yield moved
        except TimeoutError:
            raise typed(
                grpc.StatusCode.DEADLINE_EXCEEDED,
                "",
                f"the transfer with {self._connection.endpoint} stood still for {timeout:g} s",
                metadata={"endpoint": self._connection.endpoint},
            ) from None
        except grpc.aio.AioRpcError as error:
            raise self._connection.failure(error) from None


async def _collect(
    told: AsyncIterable[WriteBlocksResponse],
    prepared: "asyncio.Future[PrepareStoreResponse]",
    moved: Moved,
) -> StoreReport:
    """Read the answers to an offer, and pass on the first as soon as it is there."""
    results: dict[int, WriteResult.ValueType] = {}
    async for answer in told:
        moved()
        if answer.HasField("prepared") and not prepared.done():
            prepared.set_result(answer.prepared)
        results.update(zip(answer.block_indexes, answer.results, strict=False))
    if not prepared.done():
        raise framing_error("the offer was not answered")
    return _report(prepared.result(), results)


def _report(
    offer: PrepareStoreResponse, results: Mapping[int, WriteResult.ValueType]
) -> StoreReport:
    return StoreReport(
        outcomes=tuple(offer.outcomes),
        evicted=tuple(offer.evicted),
        results=tuple([results.get(i, _UNWRITTEN) for i in range(len(offer.outcomes))]),
    )


def _whole(payloads: Sequence["Buffer"], sizes: Sequence[int]) -> Sequence[bytes | memoryview]:
    """Return the bytes of every block, when each has its size."""
    whole = [each for each in payloads if type(each) is bytes]
    if len(whole) == len(payloads) and list(map(len, whole)) == list(sizes):
        return whole
    return list(_views(dict(enumerate(payloads)), sizes).values())


def _views(payloads: Mapping[int, "Buffer"], sizes: Sequence[int]) -> dict[int, memoryview]:
    """Return the bytes of each payload by place, ascending, when each has its block's size."""
    views = {}
    for index, payload in payloads.items():
        if not isinstance(index, int) or not 0 <= index < len(sizes):
            raise bad_argument(f"payloads has place {quote(index)}; there are {len(sizes)} blocks")
        view = views[index] = view_bytes(f"payloads[{index}]", payload)
        if len(view) != sizes[index]:
            raise bad_argument(
                f"payloads[{index}] has {len(view)} bytes; the block has {sizes[index]}"
            )
    return dict(sorted(views.items()))


async def _lease_requests(
    first: WriteBlocksRequest, views: Mapping[int, memoryview], moved: Moved
) -> AsyncIterator[WriteBlocksRequest]:
    yield first
    for chunk in cut(views.items()):
        yield _request(chunk)
        moved()


async def _offer_requests(
    first: WriteBlocksRequest,
    views: Mapping[int, memoryview],
    prepared: "asyncio.Future[PrepareStoreResponse]",
    moved: Moved,
) -> AsyncIterator[WriteBlocksRequest]:
    yield first
    outcomes = (await prepared).outcomes
    wanted = (
        (index, views[index])
        for index, outcome in enumerate(outcomes)
        if outcome == StoreOutcome.STORE_OUTCOME_WRITE
    )
    for chunk in cut(wanted):
        yield _request(chunk)
        moved()


def _request(chunk: Chunk) -> WriteBlocksRequest:
    return WriteBlocksRequest(
        block_index=chunk.block_index,
        offset=chunk.offset,
        checksums=chunk.checksums,
        data=chunk.data,
    )
