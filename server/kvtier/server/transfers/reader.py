"""Reading pinned blocks as a stream of messages."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Executor

import structlog
from xxhash import xxh3_64_intdigest

from kvtier.server.tiers.tier import Tier
from kvtier.v1.result_pb2 import ReadResult
from kvtier.v1.transfer_service_pb2 import ReadBlocksResponse

CHUNK_BYTES = 1 << 20

_log = structlog.get_logger(__name__)


class BlockReader:
    """Reads blocks that are pinned for the time of a call, and checks each against its checksum.

    Args:
        tier: The tier.
        slots: The slot of each block, by its place in the request; None for one that is not there.
        block_bytes: Bytes of each block.
        threads: Where large blocks are read.
    """

    def __init__(
        self,
        tier: Tier,
        slots: Sequence[int | None],
        block_bytes: Sequence[int],
        threads: Executor,
    ) -> None:
        self._threads = threads
        self._tier = tier
        self._slots = slots
        self._block_bytes = block_bytes

    async def messages(self) -> AsyncIterator[ReadBlocksResponse]:
        """Yield the messages; the data of one never runs over a block that is not sent."""
        missing = [place for place, slot in enumerate(self._slots) if slot is None]
        if missing:
            yield _refusal(missing, ReadResult.READ_RESULT_MISS)
        place = 0
        while place < len(self._slots):
            size = self._block_bytes[place]
            if self._slots[place] is None:
                place += 1
            elif size > self._tier.store.inline_bytes:
                async for message in self._large(place):
                    yield message
                place += 1
            else:
                last = self._small_run(place)
                for message in self._small(place, last):
                    yield message
                place = last

    def _small_run(self, first: int) -> int:
        """Return the place behind the small blocks that fit one message."""
        place, total = first, 0
        while place < len(self._slots) and self._slots[place] is not None:
            size = self._block_bytes[place]
            if size > self._tier.store.inline_bytes or total + size > CHUNK_BYTES:
                break
            place, total = place + 1, total + size
        return place

    def _small(self, first: int, last: int) -> list[ReadBlocksResponse]:
        messages: list[ReadBlocksResponse] = []
        blocks: list[bytes] = []
        for place in range(first, last):
            data = self._read(place)
            if data is not None:
                blocks.append(data)
                continue
            messages += self._joined(place - len(blocks), blocks)
            messages.append(self._corrupt(place))
            blocks = []
        return messages + self._joined(last - len(blocks), blocks)

    def _joined(self, first: int, blocks: Sequence[bytes]) -> list[ReadBlocksResponse]:
        if not blocks:
            return []
        checksums = [self._checksum(first + i) for i in range(len(blocks))]
        return [ReadBlocksResponse(block_index=first, checksums=checksums, data=b"".join(blocks))]

    async def _large(self, place: int) -> AsyncIterator[ReadBlocksResponse]:
        loop = asyncio.get_running_loop()
        data = await loop.run_in_executor(self._threads, self._read, place)
        if data is None:
            yield self._corrupt(place)
            return
        for offset in range(0, len(data), CHUNK_BYTES):
            ends = offset + CHUNK_BYTES >= len(data)
            yield ReadBlocksResponse(
                block_index=place,
                offset=offset,
                checksums=[self._checksum(place)] if ends else [],
                data=data[offset : offset + CHUNK_BYTES],
            )

    def _slot(self, place: int) -> int:
        slot = self._slots[place]
        assert slot is not None
        return slot

    def _checksum(self, place: int) -> int:
        return self._tier.table.checksum[self._slot(place)]

    def _read(self, place: int) -> bytes | None:
        """Return a block's bytes, or None when they do not match its checksum or cannot be read."""
        position, store = self._tier.position_of(self._slot(place)), self._tier.store
        try:
            data = store.read(position, self._block_bytes[place])
        except (OSError, RuntimeError) as error:
            _log.warning("a block cannot be read", device=store.device, reason=str(error))
            return None
        return data if xxh3_64_intdigest(data) == self._checksum(place) else None

    def _corrupt(self, place: int) -> ReadBlocksResponse:
        self._tier.drop_corrupt(self._slot(place))
        return _refusal([place], ReadResult.READ_RESULT_CORRUPT)


def _refusal(places: Sequence[int], result: ReadResult.ValueType) -> ReadBlocksResponse:
    return ReadBlocksResponse(block_indexes=places, results=[result] * len(places))
