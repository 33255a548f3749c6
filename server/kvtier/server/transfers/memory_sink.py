"""Writing the pieces of blocks into a tier's memory as they come."""

import asyncio
from collections.abc import Awaitable, Sequence
from concurrent.futures import Executor

import numpy as np
import structlog
from xxhash import xxh3_64, xxh3_64_intdigest

from kvtier.server.stores.base import BlockStore
from kvtier.server.tiers.tier import Tier
from kvtier.server.transfers.pieces import Piece
from kvtier.server.transfers.sink import UnderWay, Verdict, Verdicts
from kvtier.v1.result_pb2 import WRITE_RESULT_CORRUPT, WRITE_RESULT_WRITTEN

_Copy = tuple[int, memoryview, xxh3_64 | None]

_log = structlog.get_logger(__name__)


class MemorySink:
    """A `Sink` of a tier in memory: what is large is copied in a thread.

    Args:
        tier: The tier.
        threads: Where large pieces are copied.
    """

    ahead_bytes = 0

    def __init__(self, tier: Tier, threads: Executor) -> None:
        self.inline_bytes = tier.arena.inline_bytes
        self.under_way = UnderWay()
        self._tier = tier
        self._threads = threads
        self._hashers: dict[int, xxh3_64] = {}
        self._failed: set[int] = set()

    def put(self, slots: Sequence[int], pieces: Sequence[Piece]) -> Verdicts | Awaitable[Verdicts]:
        """See `Sink`."""
        copies = [self._copy(slot, piece) for slot, piece in zip(slots, pieces, strict=True)]
        if sum(len(piece.data) for piece in pieces) <= self.inline_bytes:
            return self._judge(pieces, _copy_all(self._tier.arena, copies))
        return self._put_in_thread(slots, pieces, copies)

    def _copy(self, slot: int, piece: Piece) -> _Copy:
        position = self._tier.position_of(slot) + piece.offset
        whole = not piece.offset and piece.checksum is not None
        hasher = None if whole else self._hashers.setdefault(piece.place, xxh3_64())
        return position, piece.data, hasher

    async def _put_in_thread(
        self, slots: Sequence[int], pieces: Sequence[Piece], copies: Sequence[_Copy]
    ) -> Verdicts:
        tier, loop = self._tier, asyncio.get_running_loop()
        copying = loop.run_in_executor(self._threads, _copy_all, tier.arena, copies)
        tier.occupancy.hold(slots)
        copying.add_done_callback(lambda _: tier.occupancy.unpin(slots))
        self.under_way.add(copying)
        return self._judge(pieces, await asyncio.shield(copying))

    def _judge(self, pieces: Sequence[Piece], digests: Sequence[int] | None) -> Verdicts:
        if digests is None:
            self._failed.update(piece.place for piece in pieces)
            digests = [0] * len(pieces)
        return [self._verdict(piece, digest) for piece, digest in zip(pieces, digests, strict=True)]

    def _verdict(self, piece: Piece, digest: int) -> Verdict:
        if piece.checksum is not None:
            self._hashers.pop(piece.place, None)
            if piece.place in self._failed:
                self._failed.discard(piece.place)
                return WRITE_RESULT_CORRUPT
        return WRITE_RESULT_WRITTEN if digest == piece.checksum else WRITE_RESULT_CORRUPT


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
