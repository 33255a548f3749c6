"""Gathering the pieces of blocks until these are whole, and saving them on a tier's shelf."""

from collections.abc import Awaitable, Sequence

import numpy as np

from kvtier.server.lasting.moving import Moving, Outcome
from kvtier.server.stores.base import Bytes
from kvtier.server.tiers.keeping import Keeping
from kvtier.server.tiers.table import PENDING
from kvtier.server.tiers.tier import Tier
from kvtier.server.transfers.pieces import Piece
from kvtier.server.transfers.sink import UnderWay, Verdicts
from kvtier.v1.result_pb2 import (
    WRITE_RESULT_CORRUPT,
    WRITE_RESULT_FAILED,
    WRITE_RESULT_UNSPECIFIED,
    WRITE_RESULT_WRITTEN,
    WriteResult,
)
from kvtier.wire.errors import invalid

_VERDICTS = {
    Outcome.DONE: WRITE_RESULT_WRITTEN,
    Outcome.DIFFERS: WRITE_RESULT_CORRUPT,
    Outcome.FAILED: WRITE_RESULT_FAILED,
}


class ShelfSink:
    """A `Sink` of a tier of files or objects.

    A block that comes in several messages is gathered in memory, one at a time, so that a call has
    no more there than its messages and one block for each.

    Args:
        tier: The tier.
        keeping: What the tier has beside its table.
        block_bytes: Bytes of each block of the offer.
        message_bytes: Most bytes of data in a message.
    """

    inline_bytes = 0

    def __init__(
        self, tier: Tier, keeping: Keeping, block_bytes: Sequence[int], message_bytes: int
    ) -> None:
        self.ahead_bytes = message_bytes + max(block_bytes, default=0)
        self.under_way = UnderWay()
        self._tier = tier
        self._keeping = keeping
        self._block_bytes = block_bytes
        self._place, self._slot = -1, -1
        self._gathered: Bytes | None = None

    def put(self, slots: Sequence[int], pieces: Sequence[Piece]) -> Verdicts | Awaitable[Verdicts]:
        """See `Sink`."""
        ended: list[int] = []
        blocks: list[Bytes] = []
        for i, (slot, piece) in enumerate(zip(slots, pieces, strict=True)):
            block = self._add(slot, piece)
            if block is not None:
                ended.append(i)
                blocks.append(block)
        verdicts = [WRITE_RESULT_UNSPECIFIED] * len(pieces)
        if not self._tier.accepts:
            return [WRITE_RESULT_FAILED] * len(pieces)
        if not ended:
            return verdicts
        mine = [slots[i] for i in ended]
        checksums = [pieces[i].checksum or 0 for i in ended]
        return self._told(self._save(mine, checksums, blocks), ended, verdicts)

    def _add(self, slot: int, piece: Piece) -> Bytes | None:
        """Take a piece; return the bytes of its block when that is whole."""
        data: Bytes = np.frombuffer(piece.data, np.uint8)
        if not piece.offset:
            if piece.checksum is not None:
                return data
            self._begin(slot, piece.place)
        assert self._gathered is not None
        # A message at most is copied here, which is no more than gRPC does to bring it.
        self._gathered[piece.offset : piece.offset + len(data)] = data
        if piece.checksum is None:
            return None
        block, self._gathered = self._gathered, None
        return block

    def _begin(self, slot: int, place: int) -> None:
        """Make room for a block, the only one of which a part is here."""
        if self._gathered is not None and self._tier.table.state[self._slot] == PENDING:
            raise invalid(
                f"block {place} begins before block {self._place} has ended: a tier of "
                f"{self._tier.store.device} takes blocks that are cut one after the other"
            )
        self._place, self._slot = place, slot
        self._gathered = np.empty(self._block_bytes[place], np.uint8)

    def _save(
        self, slots: Sequence[int], checksums: Sequence[int], blocks: Sequence[Bytes]
    ) -> Moving:
        occupancy = self._tier.occupancy
        moving = self._keeping.save(slots, checksums, blocks)
        occupancy.hold(slots)
        moving.ended.add_done_callback(lambda _: occupancy.unpin(slots))
        self.under_way.add(moving.ended)
        return moving

    async def _told(
        self, moving: Moving, ended: Sequence[int], verdicts: list[WriteResult.ValueType]
    ) -> Verdicts:
        try:
            outcomes = await moving.outcomes()
        finally:
            # What nobody waits for any more need not be written.
            moving.abandon()
        for i, outcome in zip(ended, outcomes, strict=True):
            verdicts[i] = _VERDICTS[outcome]
        return verdicts
