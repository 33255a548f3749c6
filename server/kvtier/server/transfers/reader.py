"""Reading pinned blocks as a stream of messages."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Executor

import structlog
from xxhash import xxh3_64_intdigest

from kvtier.server.stores.base import look
from kvtier.server.tiers.tier import Tier
from kvtier.server.transfers.budget import Budget
from kvtier.v1.result_pb2 import ReadResult
from kvtier.v1.transfer_service_pb2 import ReadBlocksResponse
from kvtier.wire.chunks import CHUNK_BYTES, Block, cut

Send = Callable[[bytes], Awaitable[None]]

# gRPC has a copy of each message until the peer took it.
_COPIES = 2

_log = structlog.get_logger(__name__)


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
        self._tier = tier
        self._slots = slots
        self._block_bytes = block_bytes
        self._budget = budget
        self._corrupt: list[int] = []

    async def send_all(self, send: Send) -> None:
        """Send what there is; the data of a message never runs over a block that is not sent.

        Args:
            send: Sends a message, and returns when there is room for the next.
        """
        missing = [place for place, slot in enumerate(self._slots) if slot is None]
        if missing:
            await send(_refusal(missing, ReadResult.READ_RESULT_MISS))
        messages = cut(self._sound_blocks())
        if sum(self._block_bytes) <= self._tier.store.inline_bytes:
            for message in messages:
                await send(message)
        else:
            await self._send_ahead(messages, send)
        await self._tell_corrupt(send)

    async def _send_ahead(self, messages: Iterator[bytes], send: Send) -> None:
        size = _COPIES * CHUNK_BYTES
        message = await _ended(self._begin_next(messages))
        while message is not None:
            await self._tell_corrupt(send)
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

    def _sound_blocks(self) -> Iterator[Block]:
        """Yield the blocks that are equal to their checksums, and note the others."""
        tier = self._tier
        for place, slot in enumerate(self._slots):
            if slot is None:
                continue
            data = self._look(place, slot)
            checksum = tier.table.checksum[slot]
            if data is not None and xxh3_64_intdigest(data) == checksum:
                yield Block(place, data, checksum)
            else:
                self._corrupt.append(place)

    def _look(self, place: int, slot: int) -> memoryview | None:
        store = self._tier.store
        try:
            return look(store, self._tier.position_of(slot), self._block_bytes[place])
        except (OSError, RuntimeError, ValueError) as error:
            _log.warning("a block cannot be read", device=store.device, reason=str(error))
            return None

    async def _tell_corrupt(self, send: Send) -> None:
        places, self._corrupt = self._corrupt, []
        for place in places:
            slot = self._slots[place]
            assert slot is not None
            self._tier.drop_corrupt(slot)
        if places:
            await send(_refusal(places, ReadResult.READ_RESULT_CORRUPT))


def memory_of_read(tier: Tier, block_bytes: Sequence[int]) -> int:
    """Return the bytes that a read needs in memory, its read-ahead apart."""
    messages = _COPIES * min(CHUNK_BYTES, sum(block_bytes))
    in_place = tier.store.views((), ()) is not None
    return messages if in_place else messages + max(block_bytes, default=0)


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


def _refusal(places: Sequence[int], result: ReadResult.ValueType) -> bytes:
    return ReadBlocksResponse(
        block_indexes=places, results=[result] * len(places)
    ).SerializeToString()
