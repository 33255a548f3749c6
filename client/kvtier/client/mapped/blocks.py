"""Storing and loading blocks of one tier by the fastest way that there is."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kvtier.client.arguments import bad_argument
from kvtier.client.chunks import block_sizes
from kvtier.client.closing import Closing
from kvtier.client.connection import Connection
from kvtier.client.errors import AbortedError, KvtierError
from kvtier.client.leases import LeaseCalls
from kvtier.client.mapped.buffers import Payload, read_payloads, read_targets
from kvtier.client.mapped.choice import Choice
from kvtier.client.mapped.copies import Workers
from kvtier.client.mapped.offers import some_of
from kvtier.client.mapped.overlap import overlapped
from kvtier.client.mapped.streamed import StreamedLeases
from kvtier.client.mapped.ways import Way, let_go
from kvtier.client.reports import BlockViews, DataPath, StoreReport
from kvtier.v1.block_pb2 import BlockRun, BlockSet, Lease
from kvtier.v1.result_pb2 import READ_RESULT_CORRUPT, ReadResult
from kvtier.v1.tier_service_pb2 import PrepareLoadResponse

if TYPE_CHECKING:
    from kvtier.client.node import NodeClient

StoreBatch = tuple[Sequence[BlockRun], Sequence[Payload]]
# With this many a prepare is under way while another batch is copied, and a completion besides.
WINDOW = 4
_RENEW_AT = 1 / 3


class _Asked(NamedTuple):
    namespace: bytes
    blocks: Sequence[BlockSet]
    sizes: Sequence[int]
    width: int


class Blocks(Closing):
    """Stores and loads of one tier, in batches.

    Where the node is on this host, and its tier can be mapped, bytes are copied once, between the
    caller's buffers and the tier's own memory; elsewhere they go through a stream. The first call
    finds out, and every report says which it was. Use it as an asynchronous context manager, or
    call `close()`.

    Payloads are anything with the buffer protocol, or with `__dlpack__` in host memory; both must
    be contiguous. Loads stamp the blocks that they name, like `NodeClient.prepare_load`.

    Args:
        client: The node's client; it is not closed.
        connection: The client's connection.
        tier: The tier's name.
        shared_memory: Whether the tier may be mapped.
        shm_dir: Where the node's shared memory is in this process's sight, if it is neither where
            the node says nor in /dev/shm.
        threads: Threads that copy.
    """

    def __init__(
        self,
        client: "NodeClient",
        connection: Connection,
        tier: str,
        *,
        shared_memory: bool,
        shm_dir: Path | None,
        threads: int,
    ) -> None:
        if threads < 1:
            raise bad_argument(f"threads must be 1 or more; got {threads}")
        self._client = client
        self._connection = connection
        self._tier = tier
        self._workers = Workers(threads)
        self._leases = StreamedLeases(connection)
        self._choice = Choice(
            client,
            tier,
            leases=self._leases,
            shared_memory=shared_memory,
            shm_dir=shm_dir,
            workers=self._workers,
        )

    async def close(self) -> None:
        """Unmap the tier, once no copy is under way; calls under way fail. Twice is harmless."""
        await asyncio.to_thread(self._workers.close)
        self._choice.close()
        await self._leases.close()

    async def store(
        self,
        namespace: bytes,
        runs: Sequence[BlockRun],
        payloads: Sequence[Payload],
        *,
        ttl: float | None = None,
        request_id: str = "",
    ) -> StoreReport:
        """Offer blocks, write those that are wanted, and make them readable.

        Args:
            namespace: The fingerprint, 32 bytes.
            runs: What is offered; blocks are numbered by their place over all runs.
            payloads: The bytes of each block, in the same order.
            ttl: Seconds that the lease lives; a copy that takes longer is aborted.
            request_id: The request whose blocks these are, for recency.

        Raises:
            AbortedError: When the lease ended before the blocks were complete: nothing is readable.
        """
        description = await self._connection.describe(namespace)
        sources = read_payloads("payloads", payloads, block_sizes(description, runs))
        _, report = await self._choice.act(
            lambda way: way.store(
                namespace,
                runs,
                sources,
                width=description.hash_width,
                ttl=ttl,
                request_id=request_id,
            )
        )
        return report

    async def store_many(
        self,
        namespace: bytes,
        batches: Iterable[StoreBatch],
        *,
        ttl: float | None = None,
        request_id: str = "",
        window: int = WINDOW,
    ) -> list[StoreReport | KvtierError]:
        """Store batches, of which several are under way at one time.

        Args:
            namespace: The fingerprint, 32 bytes.
            batches: What is offered in each, and its payloads.
            ttl: Seconds that each lease lives.
            request_id: The request whose blocks these are, for recency.
            window: Batches under way at most.

        Returns:
            The report of each batch, or the error that it ended with.
        """
        return await overlapped(
            batches,
            lambda batch: self.store(namespace, *batch, ttl=ttl, request_id=request_id),
            window,
        )

    async def load(
        self,
        namespace: bytes,
        blocks: Sequence[BlockSet],
        into: Sequence[Payload] | None = None,
        *,
        ttl: float | None = None,
        request_id: str = "",
    ) -> BlockViews:
        """Copy blocks out of the tier.

        Args:
            namespace: The fingerprint, 32 bytes.
            blocks: The blocks, numbered by their place over all sets.
            into: A buffer for each block; None makes new ones. Those of blocks that are not there,
                or of a call that fails, may hold anything.
            ttl: Seconds that the lease lives; a copy that takes longer is aborted.
            request_id: The request that loads, for recency.

        Raises:
            AbortedError: When the lease ended meanwhile: what was copied may be wrong.
        """
        asked = await self._ask(namespace, blocks)
        buffers = [bytearray(size) for size in asked.sizes] if into is None else into
        targets = read_targets("into", buffers, asked.sizes)
        async with self._pinned(asked, ttl, request_id) as (way, answer):
            payloads, results = await way.copy_out(answer, targets)
            for place, payload in await self._ask_again(way, asked, results):
                targets[place].view[:] = payload
                payloads[place] = targets[place].view
        return BlockViews(tuple(payloads), tuple(results), way.path)

    async def load_many(
        self,
        namespace: bytes,
        batches: Iterable[Sequence[BlockSet]],
        into: Iterable[Sequence[Payload] | None] | None = None,
        *,
        ttl: float | None = None,
        request_id: str = "",
        window: int = WINDOW,
    ) -> list[BlockViews | KvtierError]:
        """Load batches, of which several are under way at one time.

        Args:
            namespace: The fingerprint, 32 bytes.
            batches: The blocks of each.
            into: The buffers of each batch; None makes new ones.
            ttl: Seconds that each lease lives.
            request_id: The request that loads, for recency.
            window: Batches under way at most.

        Returns:
            The blocks of each batch, or the error that it ended with.
        """
        buffers = repeat(None) if into is None else into
        return await overlapped(
            zip(batches, buffers, strict=False),
            lambda batch: self.load(namespace, *batch, ttl=ttl, request_id=request_id),
            window,
        )

    @asynccontextmanager
    async def read(
        self,
        namespace: bytes,
        blocks: Sequence[BlockSet],
        *,
        ttl: float | None = None,
        request_id: str = "",
    ) -> AsyncIterator[BlockViews]:
        """Read blocks where they are: the views are good inside the context, under a lease.

        The lease is renewed as long as the context lasts.

        Args:
            namespace: The fingerprint, 32 bytes.
            blocks: The blocks, numbered by their place over all sets.
            ttl: Seconds that the lease lives, should this client vanish.
            request_id: The request that loads, for recency.

        Raises:
            AbortedError: At the end, when the lease ended meanwhile: what was read may be wrong.
        """
        asked = await self._ask(namespace, blocks)
        async with self._pinned(asked, ttl, request_id) as (way, answer):
            payloads, results = await way.look_in(answer, asked.sizes)
            mine = [view for view in payloads if view is not None]
            for place, payload in await self._ask_again(way, asked, results):
                payloads[place] = memoryview(payload)
            renewing = asyncio.create_task(
                _renew(way.leases, answer.lease, answer.ttl.ToMicroseconds() / 1e6)
            )
            try:
                yield BlockViews(tuple(payloads), tuple(results), way.path)
            finally:
                renewing.cancel()
                for view in mine:
                    # What the caller made of it keeps it, against what the docstring says.
                    with suppress(BufferError):
                        view.release()

    @asynccontextmanager
    async def _pinned(
        self, asked: _Asked, ttl: float | None, request_id: str
    ) -> AsyncIterator[tuple[Way, PrepareLoadResponse]]:
        way, answer = await self._choice.act(
            lambda way: way.pin(asked.namespace, asked.blocks, ttl=ttl, request_id=request_id)
        )
        try:
            yield way, answer
            await way.leases.complete_load(answer.lease)
        except AbortedError:
            raise
        except BaseException:
            await let_go(way.leases, answer.lease)
            raise

    async def _ask(self, namespace: bytes, blocks: Sequence[BlockSet]) -> _Asked:
        description = await self._connection.describe(namespace)
        sizes = block_sizes(description, blocks)
        return _Asked(namespace, blocks, sizes, description.hash_width)

    async def _ask_again(
        self, way: Way, asked: _Asked, results: list[ReadResult.ValueType]
    ) -> list[tuple[int, bytes]]:
        """Ask for mapped blocks that do not match their checksums: the node drops spoiled ones.

        Returns:
            The place and bytes of those that are right all the same.
        """
        places = [place for place, result in enumerate(results) if result == READ_RESULT_CORRUPT]
        if not places or way.path is DataPath.STREAM:
            return []
        sets = some_of(asked.blocks, asked.width, places)
        report = await self._client.load(self._tier, asked.namespace, sets)
        for place, result in zip(places, report.results, strict=True):
            results[place] = result
        found = zip(places, report.payloads, strict=True)
        return [(place, payload) for place, payload in found if payload is not None]


async def _renew(leases: LeaseCalls, lease: Lease, ttl: float) -> None:
    while True:
        await asyncio.sleep(ttl * _RENEW_AT)
        with suppress(KvtierError):
            await leases.renew_leases([lease], ttl)
