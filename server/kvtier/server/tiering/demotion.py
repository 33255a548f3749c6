"""Demotion: blocks whose room is needed go to the tier below."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from kvtier.server.events.log import EventLog
from kvtier.server.tiering.copier import Copier
from kvtier.server.tiering.jobs import Jobs
from kvtier.server.tiering.legs import begin, may_arrive, settle, still_to_copy
from kvtier.server.tiering.links import Link, batch_blocks, most_blocks
from kvtier.server.tiering.victims import give_back, may_leave
from kvtier.server.tiers.policy import Aged
from kvtier.server.tiers.room import evictable
from kvtier.server.tiers.table import READY
from kvtier.server.tiers.tier import Tier
from kvtier.v1.block_pb2 import REMOVAL_REASON_DEMOTED

# How many blocks must still go, when some slots are in hand, and the slots to spare.
Shortage: TypeAlias = Callable[[int], tuple[int, Sequence[int]]]


class Demoter:
    """Moves a tier's oldest blocks to the tier below it.

    A victim stays readable until its copy is. Whoever leases or stamps it meanwhile takes it back.

    Args:
        log: The node's event log.
        links: What each tier's configuration says.
        copier: Copies bytes.
        jobs: Runs what must not end with the call that began it.
    """

    def __init__(self, log: EventLog, links: dict[Tier, Link], copier: Copier, jobs: Jobs) -> None:
        self._log = log
        self._links = links
        self._copier = copier
        self._jobs = jobs

    async def make_room(self, tier: Tier, shortage: Shortage) -> list[int]:
        """Demote until there is room, as long as the tier's `demote_wait` allows.

        Returns:
            Slots that were freed and are held, for the caller to let go of when it takes them. They
            may be fewer than were needed: then blocks must be dropped.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._links[tier].demote_wait
        in_hand: list[int] = []
        try:
            while True:
                missing, spared = shortage(len(in_hand))
                left = deadline - loop.time()
                if missing <= 0 or left <= 0:
                    return in_hand
                freed = await self._step(tier, missing, spared, left)
                if freed is None:
                    return in_hand
                in_hand += freed
        except BaseException:
            tier.occupancy.unpin(in_hand)
            raise

    async def keep_free(self, tier: Tier) -> None:
        """Demote until the part of a tier's slots that shall be free is."""
        target = int(self._links[tier].free_target * tier.table.capacity)
        while (missing := target - tier.table.free) > 0:
            freed = await self.demote(tier, missing, ())
            if freed is None:
                return
            tier.occupancy.unpin(freed)
            # Small blocks are copied without a thread, and then nothing above ever waits.
            await asyncio.sleep(0)

    async def demote(self, tier: Tier, count: int, spared: Sequence[int]) -> list[int] | None:
        """Move up to so many blocks down, one step of them.

        Returns:
            Their slots, which are held: none when all were taken back. None when the tier below
            has no room, or copies fail.
        """
        below = tier.below
        # Since it was asked for, others may have leased what could go.
        count = min(count, evictable(tier.occupancy, spared))
        if below is None or count <= 0:
            return None
        aged = tier.occupancy.claim(min(count, most_blocks(tier, below)), spared)
        slots = [slot for _, some in aged for slot in some]
        there = below.table.index.get_many(tier.table.keys_of(slots))
        absent = [slot for slot, place in zip(slots, there, strict=True) if place is None]
        moving = absent[: batch_blocks(tier, absent)]
        known = [slot for slot, place in zip(slots, there, strict=True) if place is not None]
        leaving: list[int] = []
        stuck = False
        try:
            chosen = await self._first_that_fit(tier, below, aged, moving)
            leg = begin(tier, below, chosen, REMOVAL_REASON_DEMOTED)
            copied = await self._copier.copy(leg)
            leg.arrived = [
                good and may_leave(tier, slot)
                for good, slot in zip(may_arrive(leg, copied), leg.slots, strict=True)
            ]
            leg.leaving = leg.arrived
            stuck = (
                not moving
                or len(leg.slots) < len(moving)
                or any(
                    not good and tier.table.state[slot] == READY
                    for good, slot in zip(copied, leg.slots, strict=True)
                )
            )
            kept = [slot for slot in known if may_leave(tier, slot, below)]
            settle(self._log, leg, also_gone=(tier, kept))
            leaving = leg.gone() + kept
            tier.counters.demoted += len(leaving)
        finally:
            give_back(tier, aged, set(leaving))
        return leaving or (None if stuck else [])

    async def room_in(self, tier: Tier, count: int, spared: Sequence[int] = ()) -> int:
        """Make room for copies in a tier; return for how many there is, up to so many."""

        def shortage(in_hand: int) -> tuple[int, Sequence[int]]:
            missing = count - tier.table.free - in_hand
            return min(missing, evictable(tier.occupancy, spared)), spared

        if tier.below is not None:
            tier.occupancy.unpin(await self.make_room(tier, shortage))
        missing, _ = shortage(0)
        if missing > 0:
            tier.evict(missing, spared)
        return max(0, min(count, tier.table.free))

    async def _step(
        self, tier: Tier, count: int, spared: Sequence[int], seconds: float
    ) -> list[int] | None:
        """Demote one step, and wait so long for it; what comes later is freed by itself."""
        step = self._jobs.start(self.demote(tier, count, spared))
        try:
            await asyncio.wait({step}, timeout=seconds)
        except asyncio.CancelledError:
            step.add_done_callback(partial(_free, tier))
            raise
        if step.done():
            return step.result()
        step.add_done_callback(partial(_free, tier))
        return None

    async def _first_that_fit(
        self, tier: Tier, below: Tier, aged: Sequence[Aged], moving: Sequence[int]
    ) -> list[Aged]:
        room = await self.room_in(below, len(moving)) if moving else 0
        chosen: list[Aged] = []
        wanted = set(moving)
        for age, some in aged:
            fitting = still_to_copy(tier, below, [slot for slot in some if slot in wanted])[:room]
            room -= len(fitting)
            if fitting:
                chosen.append((age, fitting))
        return chosen


def _free(tier: Tier, step: "asyncio.Task[list[int] | None]") -> None:
    if not step.cancelled() and step.exception() is None:
        tier.occupancy.unpin(step.result() or ())
