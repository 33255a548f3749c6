"""Writing through: copies of what was stored, in slower tiers, in the background."""

import asyncio
from collections import Counter
from collections.abc import Sequence

from kvtier.server.tiering.carrier import COPIED, MISS, NO_ROOM, Carrier, let_go_of_copies
from kvtier.server.tiering.jobs import Jobs
from kvtier.server.tiering.links import most_blocks
from kvtier.server.tiers.table import READY
from kvtier.server.tiers.tier import Tier

_AT_ONCE = 2
# Stores that wait for one target.
_MOST_WAITING = 1024


class WriteThrough:
    """Copies stored blocks to the tiers that they are written through to.

    What waits for its turn holds nothing, so that a slow target never fills the source: a block
    that is gone by then is counted as a copy that failed.

    Args:
        carrier: Carries blocks.
        jobs: Runs what must not end with the call that began it.
    """

    def __init__(self, carrier: Carrier, jobs: Jobs) -> None:
        self._carrier = carrier
        self._jobs = jobs
        self._turns: dict[Tier, asyncio.Semaphore] = {}
        self._waiting = Counter[Tier]()

    def begin(self, source: Tier, target: Tier, keys: Sequence[bytes]) -> asyncio.Task[None] | None:
        """Begin to copy what a target lacks of these blocks; None when too much waits already."""
        if self._waiting[target] >= _MOST_WAITING:
            target.counters.copies_failed += len(keys)
            return None
        self._waiting[target] += 1
        return self._jobs.start(self._copy(source, target, keys))

    async def _copy(self, source: Tier, target: Tier, keys: Sequence[bytes]) -> None:
        step, offer = most_blocks(source, target), frozenset(keys)
        try:
            async with self._turns.setdefault(target, asyncio.Semaphore(_AT_ONCE)):
                for first in range(0, len(keys), step):
                    await self._copy_some(source, target, keys[first : first + step], offer)
        finally:
            self._waiting[target] -= 1

    async def _copy_some(
        self, source: Tier, target: Tier, keys: Sequence[bytes], offer: frozenset[bytes]
    ) -> None:
        state, copied = source.table.state, 0
        found = [slot for slot in source.table.index.get_many(keys) if slot is not None]
        slots = [slot for slot in found if state[slot] == READY]
        lost = len(keys) - len(slots)
        source.occupancy.hold_for_copy(slots)
        try:
            rest = slots
            while rest:
                # Small blocks are copied without a thread, and then nothing here ever waits.
                await asyncio.sleep(0)
                results = await self._carrier.step(source, target, rest, move=False, offer=offer)
                let_go_of_copies(source, target, rest, results)
                rest = rest[len(results) :]
                copied += results.count(COPIED)
                lost += results.count(NO_ROOM) + results.count(MISS)
        finally:
            source.occupancy.let_go_of_copies(slots)
            target.counters.written_through += copied
            target.counters.copies_failed += lost
