"""Writing blocks into the slots of a store lease."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor

import numpy as np
import structlog
from xxhash import xxh3_64, xxh3_64_intdigest

from kvtier.server.leases import Lease, Leases
from kvtier.server.stores.base import BlockStore
from kvtier.server.tiers.table import PENDING, WRITTEN
from kvtier.server.transfers.pieces import Piece, cut
from kvtier.server.transfers.whole import count_whole, write_whole
from kvtier.v1.result_pb2 import (
    WRITE_RESULT_ABORTED,
    WRITE_RESULT_CORRUPT,
    WRITE_RESULT_WRITTEN,
    WriteResult,
)
from kvtier.wire.chunks import Chunk
from kvtier.wire.errors import aborted, invalid

_Copy = tuple[int, memoryview, xxh3_64 | None]

_log = structlog.get_logger(__name__)


class BlockWriter:
    """Writes the pieces of one call; a block is written only when whole and equal to its checksum.

    Bytes of blocks that the lease does not hold are passed over.

    Args:
        leases: The node's leases.
        lease: The store lease.
        threads: Where large pieces are copied.
    """

    def __init__(self, leases: Leases, lease: Lease, threads: Executor) -> None:
        self._leases = leases
        self._threads = threads
        self._lease = lease
        self._hashers: dict[int, xxh3_64] = {}
        self._reached: dict[int, int] = {}
        self._failed: set[int] = set()
        self._copying: asyncio.Future[list[int] | None] | None = None

    async def take(self, message: Chunk) -> dict[int, WriteResult.ValueType]:
        """Write what a message brings; return what became of the blocks that ended, by place.

        Raises:
            KvtierError: As `cut` and `write` do.
        """
        block_bytes = self._lease.block_bytes
        count = count_whole(message, block_bytes)
        if count and len(message.data) <= self._lease.tier.store.inline_bytes:
            results = write_whole(self._lease, message, count)
            if results is not None:
                return results
        return await self.write(cut(message, block_bytes))

    async def write(self, pieces: Sequence[Piece]) -> dict[int, WriteResult.ValueType]:
        """Write pieces; return what became of the blocks that ended, by place.

        Raises:
            KvtierError: ABORTED when the lease has ended, INVALID_ARGUMENT when a piece does not go
                on where the one before it ended.
        """
        results: dict[int, WriteResult.ValueType] = {}
        wanted = [piece for piece in pieces if self._wants(piece, results)]
        copies, store = [self._copy(piece) for piece in wanted], self._lease.tier.store
        if sum(len(piece.data) for piece in wanted) <= store.inline_bytes:
            digests = _copy_all(store, copies)
        else:
            slots = [self._lease.slots[piece.place] for piece in wanted]
            digests = await self._copy_in_thread(slots, copies)
            self.check_open()
        self._settle(wanted, digests, results)
        return results

    def check_open(self) -> None:
        """Raise ABORTED when the lease has ended."""
        if self._leases.get(self._lease.id) is not self._lease:
            raise aborted(f"lease {self._lease.id.hex()} ended while its blocks were written")

    def close(self) -> None:
        """Let other calls write the blocks that this one has begun, once no copy is under way."""
        if self._copying is None or self._copying.done():
            self._lease.writing.difference_update(self._reached)
        else:
            self._copying.add_done_callback(
                lambda _: self._lease.writing.difference_update(self._reached)
            )

    def _wants(self, piece: Piece, results: dict[int, WriteResult.ValueType]) -> bool:
        place, lease = piece.place, self._lease
        slot = lease.slots.get(place)
        if slot is None:
            return False
        state = lease.tier.table.state[slot]
        if state != PENDING:
            if piece.checksum is not None:
                results[place] = WRITE_RESULT_WRITTEN if state == WRITTEN else WRITE_RESULT_ABORTED
            return False
        if piece.offset != self._reached.get(place, 0):
            raise invalid(
                f"block {place} goes on at offset {piece.offset}; it must go on at "
                f"{self._reached.get(place, 0)}"
            )
        if not piece.offset and place in lease.writing:
            raise aborted(f"block {place} of lease {lease.id.hex()} is written by another call")
        lease.writing.add(place)
        self._reached[place] = piece.offset + len(piece.data)
        return True

    def _copy(self, piece: Piece) -> _Copy:
        tier = self._lease.tier
        position = tier.position_of(self._lease.slots[piece.place]) + piece.offset
        whole = not piece.offset and piece.checksum is not None
        hasher = None if whole else self._hashers.setdefault(piece.place, xxh3_64())
        return position, piece.data, hasher

    async def _copy_in_thread(
        self, slots: Sequence[int], copies: Sequence[_Copy]
    ) -> list[int] | None:
        """Copy in a thread, and hold the slots until it is done, also when the caller leaves."""
        tier, loop = self._lease.tier, asyncio.get_running_loop()
        copying = loop.run_in_executor(self._threads, _copy_all, tier.store, copies)
        tier.occupancy.hold(slots)
        copying.add_done_callback(lambda _: tier.occupancy.unpin(slots))
        self._copying = copying
        return await asyncio.shield(copying)

    def _settle(
        self,
        pieces: Sequence[Piece],
        digests: Sequence[int] | None,
        results: dict[int, WriteResult.ValueType],
    ) -> None:
        tier, slots, state = self._lease.tier, self._lease.slots, self._lease.tier.table.state
        written: list[Piece] = []
        if digests is None:
            self._failed.update(piece.place for piece in pieces)
            digests = [0] * len(pieces)
        for piece, digest in zip(pieces, digests, strict=True):
            if piece.checksum is None:
                continue
            self._finish(piece.place)
            if state[slots[piece.place]] != PENDING:
                results[piece.place] = WRITE_RESULT_ABORTED
            elif digest != piece.checksum or piece.place in self._failed:
                results[piece.place] = WRITE_RESULT_CORRUPT
            else:
                results[piece.place] = WRITE_RESULT_WRITTEN
                written.append(piece)
            self._failed.discard(piece.place)
        tier.mark_written(
            [slots[piece.place] for piece in written],
            [piece.checksum or 0 for piece in written],
        )

    def _finish(self, place: int) -> None:
        self._hashers.pop(place, None)
        self._reached.pop(place, None)
        self._lease.writing.discard(place)


def _copy_all(store: BlockStore, copies: Sequence[_Copy]) -> list[int] | None:
    """Copy, and return the digest of each block so far; None when the device fails."""
    try:
        store.write_many(
            [position for position, _, _ in copies],
            [np.frombuffer(data, np.uint8) for _, data, _ in copies],
        )
    except (OSError, RuntimeError) as error:
        _log.warning("blocks cannot be written", device=store.device, reason=str(error))
        return None
    digests = []
    for _, data, hasher in copies:
        if hasher is None:
            digests.append(xxh3_64_intdigest(data))
        else:
            hasher.update(data)
            digests.append(hasher.intdigest())
    return digests
