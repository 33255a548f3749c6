"""Calls that move blocks' bytes."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from kvtier.client.arguments import bad_argument, build, view_bytes
from kvtier.client.calls import Calls
from kvtier.client.chunks import Assembly, block_sizes, framing_error
from kvtier.client.ending import answers
from kvtier.client.errors import typed
from kvtier.client.reports import LoadReport, StoreReport
from kvtier.client.sending import (
    EAGER_BYTES,
    Moved,
    at_once,
    lease_requests,
    offer_requests,
    views,
    whole_payloads,
)
from kvtier.v1.block_pb2 import BlockRun, BlockSet, Lease
from kvtier.v1.result_pb2 import ReadResult, WriteResult
from kvtier.v1.tier_service_pb2 import (
    PrepareStoreRequest,
    PrepareStoreResponse,
)
from kvtier.v1.transfer_service_pb2 import (
    ReadBlocksRequest,
    ReadBlocksResponse,
    ReadTarget,
    WriteBlocksRequest,
    WriteBlocksResponse,
)
from kvtier.wire.chunks import Chunk, split
from kvtier.wire.errors import quote

if TYPE_CHECKING:
    from typing_extensions import Buffer

_UNWRITTEN = WriteResult.WRITE_RESULT_UNSPECIFIED


class TransferCalls(Calls):
    """Moving bytes, over a connection of its own.

    A transfer may take as long as it moves: one that stands still for the client's timeout ends
    with `DeadlineError`, as does a store of up to 2 MiB that is not answered within it.
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
        whole = whole_payloads(payloads, sizes)
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
        sent = views(payloads, block_bytes)
        results: dict[int, WriteResult.ValueType] = {}
        async with self._moving() as moved:
            call = self._connection.bulk.write(lease_requests(first, sent, moved))
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

    async def load_into(
        self,
        tier: str,
        namespace: bytes,
        blocks: Sequence[BlockSet],
        buffers: Sequence["Buffer"],
    ) -> tuple[ReadResult.ValueType, ...]:
        """Read blocks straight into memory of the caller's, such as an engine's pinned buffers.

        Args:
            tier: The tier's name.
            namespace: The fingerprint, 32 bytes.
            blocks: The blocks, numbered by their place over all sets.
            buffers: Where each block's bytes go: writable, contiguous, of the block's size.

        Returns:
            One a block: READ_RESULT_UNSPECIFIED where its bytes are in its buffer, else why not,
            as `LoadReport.results` tells it. The buffer of such a block may hold anything.
        """
        target = build(ReadTarget, tier=tier, namespace=namespace, blocks=blocks)
        sizes = block_sizes(await self._connection.describe(target.namespace), target.blocks)
        into, request = _writable(buffers, sizes), ReadBlocksRequest(blocks=target)
        report = await self._connection.remembering(
            target.namespace, lambda: self._read(request, sizes, into)
        )
        return report.results

    async def read_blocks_into(
        self, lease: Lease, buffers: Sequence["Buffer"]
    ) -> tuple[ReadResult.ValueType, ...]:
        """Read the blocks of an open load lease into memory of the caller's, as `load_into` does.

        Args:
            lease: The lease, from the answer of `prepare_load`.
            buffers: Where the bytes of each block of its request go, each of the block's size.
        """
        into = _writable(buffers, None)
        request = build(ReadBlocksRequest, lease=lease)
        return (await self._read(request, [len(view) for view in into], into)).results

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
            sent = {place: memoryview(payload) for place, payload in enumerate(payloads)}
            return await self._write_in_turns(WriteBlocksRequest(offer=offer), sent)
        message = await at_once(WriteBlocksRequest(offer=offer), payloads)
        write = self._connection.bulk.write_at_once
        try:
            answer = await write(message, timeout=self._connection.timeout)
        except grpc.aio.AioRpcError as error:
            raise self._connection.failure(error) from None
        if answer is None or not answer.HasField("prepared"):
            raise framing_error("the offer was not answered")
        results = dict(zip(answer.block_indexes, answer.results, strict=False))
        return _report(answer.prepared, results)

    async def _write_in_turns(
        self, first: WriteBlocksRequest, payloads: Mapping[int, memoryview]
    ) -> StoreReport:
        prepared: asyncio.Future[PrepareStoreResponse] = asyncio.Future()
        async with self._moving() as moved:
            requests = offer_requests(first, payloads, prepared, moved)
            try:
                call = self._connection.bulk.write(requests)
                return await _collect(answers(call), prepared, moved)
            finally:
                # Else the writer would wait for ever for the answer to an offer that failed.
                prepared.cancel()

    async def _read(
        self,
        request: ReadBlocksRequest,
        sizes: Sequence[int],
        into: Sequence[memoryview] | None = None,
    ) -> LoadReport:
        assembly = Assembly(sizes, into)
        async with self._moving() as moved:
            call = self._connection.bulk.read(request)
            try:
                async for encoded in call:
                    moved()
                    _take(assembly, encoded)
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


def _take(assembly: Assembly, encoded: bytes) -> None:
    try:
        told, data = split(ReadBlocksResponse, encoded)
    except DecodeError:
        raise framing_error(f"{len(encoded)} bytes that are no ReadBlocksResponse") from None
    assembly.skip(told.block_indexes, told.results)
    assembly.add(Chunk(told.block_index, told.offset, told.checksums, data))


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


def _writable(buffers: Sequence["Buffer"], sizes: Sequence[int] | None) -> list[memoryview]:
    """Return views of buffers, when they can be written and have the sizes of the blocks."""
    found = [view_bytes(f"buffers[{place}]", each) for place, each in enumerate(buffers)]
    for place, view in enumerate(found):
        if view.readonly:
            raise bad_argument(f"buffers[{place}] cannot be written")
    if sizes is not None and [len(view) for view in found] != list(sizes):
        raise bad_argument(
            f"buffers have {quote([len(view) for view in found])} bytes; the blocks have "
            f"{quote(list(sizes))}"
        )
    return found
