"""Reading pinned blocks as a stream of messages."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import aclosing

from kvtier.server.tiers.tier import Tier
from kvtier.server.transfers.budget import Budget
from kvtier.server.transfers.memory_source import MemorySource
from kvtier.server.transfers.shelf_source import PORTION_BYTES, ShelfSource
from kvtier.server.transfers.source import Source
from kvtier.v1.result_pb2 import ReadResult
from kvtier.v1.transfer_service_pb2 import ReadBlocksResponse
from kvtier.wire.chunks import CHUNK_BYTES, cut

Send = Callable[[bytes], Awaitable[None]]

# gRPC has a copy of each message until the peer took it.
_COPIES = 2


class BlockReader:
    """Reads blocks that are pinned for the time of a call, and checks each against its checksum.

    While a message is sent a thread makes the next, when the budget has room for it. A call does
    not end before its thread: until then the blocks are pinned and the bytes are counted.

    Args:
        tier: The tier.
        slots: The slot of each block, by its place in the request; None for one that is not there.
        block_bytes: Bytes of each block.
        threads: Where large blocks are read.
        budget: Bytes of messages that all calls may have in memory.
    """

    def __init__(
        self,
        tier: Tier,
        slots: Sequence[int | None],
        block_bytes: Sequence[int],
        threads: Executor,
        budget: Budget,
    ) -> None:
        self._threads = threads
        self._slots = slots
        self._block_bytes = block_bytes
        self._budget = budget
        self._source = _open_source(tier, slots, block_bytes, budget)

    async def send_all(self, send: Send) -> None:
        """Send what there is; the data of a message never runs over a block that is not sent.

        Args:
            send: Sends a message, and returns when there is room for the next.
        """
        missing = [place for place, slot in enumerate(self._slots) if slot is None]
        if missing:
            await send(_refusal(missing, [ReadResult.READ_RESULT_MISS] * len(missing)))
        inline = sum(self._block_bytes) <= self._source.inline_bytes
        async with aclosing(self._source.portions()) as portions:
            async for blocks in portions:
                await self._tell_refused(send)
                if inline:
                    for message in cut(blocks):
                        await send(message)
                else:
                    await self._send_ahead(cut(blocks), send)
        await self._tell_refused(send)

    async def _send_ahead(self, messages: Iterator[bytes], send: Send) -> None:
        size = _COPIES * CHUNK_BYTES
        message = await _ended(self._begin_next(messages))
        while message is not None:
            await self._tell_refused(send)
            if self._budget.take_spare(size):
                try:
                    coming = self._begin_next(messages)
                    try:
                        await send(message)
                    finally:
                        message = await _ended(coming)
                finally:
                    self._budget.give_back(size)
            else:
                await send(message)
                message = await _ended(self._begin_next(messages))

    def _begin_next(self, messages: Iterator[bytes]) -> asyncio.Future[bytes | None]:
        return asyncio.get_running_loop().run_in_executor(self._threads, next, messages, None)

    async def _tell_refused(self, send: Send) -> None:
        refused = self._source.take_refused()
        if refused:
            await send(_refusal(list(refused), list(refused.values())))


def memory_of_read(tier: Tier, block_bytes: Sequence[int]) -> int:
    """Return the bytes that a read needs in memory, its read-ahead apart."""
    total, largest = sum(block_bytes), max(block_bytes, default=0)
    messages = _COPIES * min(CHUNK_BYTES, total)
    if tier.keeping is not None:
        return messages + min(total, max(PORTION_BYTES, largest))
    in_place = tier.arena.views((), ()) is not None
    return messages if in_place else messages + largest


def _open_source(
    tier: Tier, slots: Sequence[int | None], block_bytes: Sequence[int], budget: Budget
) -> Source:
    if tier.keeping is None:
        return MemorySource(tier, slots, block_bytes)
    return ShelfSource(tier, tier.keeping, slots, block_bytes, budget)


async def _ended(work: asyncio.Future[bytes | None]) -> bytes | None:
    """Return what a thread makes; a cancellation is heeded when the thread has ended."""
    cancelled = False
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        work.exception()
        raise asyncio.CancelledError
    return work.result()


def _refusal(places: Sequence[int], results: Sequence[ReadResult.ValueType]) -> bytes:
    return ReadBlocksResponse(block_indexes=places, results=results).SerializeToString()
