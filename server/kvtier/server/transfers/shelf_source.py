"""Reading blocks from a tier's shelf, a portion ahead of the one that is sent."""

from collections.abc import AsyncGenerator, Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from kvtier.server.lasting.moving import Outcome
from kvtier.server.stores.copying import batches
from kvtier.server.tiers.keeping import Keeping
from kvtier.server.tiers.losses import settle_losses
from kvtier.server.tiers.tier import Tier
from kvtier.server.transfers.budget import Budget
from kvtier.server.transfers.source import Refused
from kvtier.v1.result_pb2 import READ_RESULT_CORRUPT, READ_RESULT_FAILED, READ_RESULT_MISS
from kvtier.wire.chunks import Block

# Bytes that are read at one time, unless one block has more.
PORTION_BYTES = 4 << 20
_INLINE_BYTES = 256 << 10
_REFUSALS = {
    Outcome.MISSING: READ_RESULT_MISS,
    Outcome.DAMAGED: READ_RESULT_CORRUPT,
    Outcome.FAILED: READ_RESULT_FAILED,
}


class _Wanted(NamedTuple):
    """A block that is to be read.

    Attributes:
        place: Its place in the request.
        slot: Its slot.
        size: Its bytes.
    """

    place: int
    slot: int
    size: int


class _Portion:
    """Some blocks that are being read."""

    def __init__(self, keeping: Keeping, wanted: Sequence[_Wanted]) -> None:
        self.wanted = wanted
        self.slots = [each.slot for each in wanted]
        self.blocks = [np.empty(each.size, np.uint8) for each in wanted]
        self.moving = keeping.load(self.slots, self.blocks)


class ShelfSource:
    """A `Source` of a tier of files or objects.

    While a portion is sent the next is read, when the budget has room for it.

    Args:
        tier: The tier.
        keeping: What the tier has beside its table.
        slots: The slot of each block, by its place in the request; None for one that is not there.
        block_bytes: Bytes of each block.
        budget: Bytes that all calls may have in memory.
    """

    inline_bytes = _INLINE_BYTES

    def __init__(
        self,
        tier: Tier,
        keeping: Keeping,
        slots: Sequence[int | None],
        block_bytes: Sequence[int],
        budget: Budget,
    ) -> None:
        self._tier = tier
        self._keeping = keeping
        self._wanted = [
            _Wanted(place, slot, size)
            for place, (slot, size) in enumerate(zip(slots, block_bytes, strict=True))
            if slot is not None
        ]
        self._budget = budget
        self._refused: Refused = {}

    async def portions(self) -> AsyncGenerator[Iterator[Block], None]:
        """See `Source`."""
        sizes = [each.size for each in self._wanted]
        runs = [self._wanted[first:last] for first, last in batches(sizes, PORTION_BYTES)]
        portion: _Portion | None = None
        ahead = 0
        try:
            for run, after in zip_longest(runs, runs[1:], fillvalue=()):
                portion = portion or _Portion(self._keeping, run)
                blocks = await self._sound_blocks(portion)
                # It takes the room of the one before, which was sent.
                self._budget.give_back(ahead)
                portion, ahead = None, sum(each.size for each in after)
                if after and self._budget.take_spare(ahead):
                    portion = _Portion(self._keeping, after)
                else:
                    ahead = 0
                yield blocks
        finally:
            if portion is not None:
                portion.moving.abandon()
                portion.moving.ended.add_done_callback(lambda _: self._budget.give_back(ahead))

    def take_refused(self) -> Refused:
        """See `Source`."""
        refused, self._refused = self._refused, {}
        return refused

    async def _sound_blocks(self, portion: _Portion) -> Iterator[Block]:
        """Return the blocks of a portion that came whole, and note the others."""
        outcomes = await portion.moving.outcomes()
        settled = settle_losses(self._tier, portion.slots, outcomes)
        checksums = self._tier.table.checksum
        sound: list[Block] = []
        for wanted, block, outcome in zip(portion.wanted, portion.blocks, settled, strict=True):
            if outcome is Outcome.DONE:
                sound.append(Block(wanted.place, block.data, checksums[wanted.slot]))
            else:
                self._refused[wanted.place] = _REFUSALS[outcome]
        return iter(sound)
