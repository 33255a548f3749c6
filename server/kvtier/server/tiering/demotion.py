"""Demotion: blocks whose room is needed go to the tier below."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from kvtier.server.events.log import EventLog
from kvtier.server.tiering.copier import Copier
from kvtier.server.tiering.jobs import Jobs
from kvtier.server.tiering.legs import begin, may_arrive, settle, still_to_copy
from kvtier.server.tiering.links import Link, batch_blocks, most_blocks
from kvtier.server.tiering.victims import give_back, may_leave
from kvtier.server.tiers.eviction import evict
from kvtier.server.tiers.policy import Aged
from kvtier.server.tiers.room import costs_of, evictable, fitting, lacking
from kvtier.server.tiers.table import READY
from kvtier.server.tiers.tier import Tier
from kvtier.v1.block_pb2 import REMOVAL_REASON_DEMOTED

# How many blocks must still go, when some slots are in hand, and the slots to spare.
Shortage: TypeAlias = Callable[[Sequence[int]], tuple[int, Sequence[int]]]
_Step: TypeAlias = "asyncio.Task[list[int] | None]"

# Steps to a tier of files or objects at one time: what waits for them holds no block.
_AT_ONCE = 2


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
        self._steps: defaultdict[Tier, set[_Step]] = defaultdict(set)

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
                missing, spared = shortage(in_hand)
                left = deadline - loop.time()
                if missing <= 0 or left <= 0:
                    return in_hand
                if await self._waited_for_turn(tier, left):
                    continue
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
            if await self._waited_for_turn(tier):
                continue
            freed = await self._step(tier, missing, ())
            if freed is None:
                return
            tier.occupancy.unpin(freed)
            # Small blocks are copied without a thread, and then nothing above ever waits.
            await asyncio.sleep(0)

    async def demote(self, tier: Tier, count: int, spared: Sequence[int]) -> list[int] | None:
        """Move up to so many blocks down, one step of them.

        Returns:
            Their slots, which are held: none when all were taken back. None when the tier below
            has no room, one of the two takes no changes, or copies fail.
        """
        below = tier.below
        # Since it was asked for, others may have leased what could go.
        count = min(count, evictable(tier.occupancy, spared))
        if below is None or count <= 0 or not (tier.accepts and below.accepts):
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

    async def room_in(self, tier: Tier, costs: Sequence[int], spared: Sequence[int] = ()) -> None:
        """Make room for copies in a tier, or for the first of them.

        Args:
            tier: The tier.
            costs: What each copy takes there, as `costs_of` says.
            spared: Slots whose blocks stay.
        """

        def shortage(in_hand: Sequence[int]) -> tuple[int, Sequence[int]]:
            missing = lacking(tier.occupancy, costs, in_hand)
            return min(missing, evictable(tier.occupancy, spared)), spared

        if tier.below is not None:
            tier.occupancy.unpin(await self.make_room(tier, shortage))
        while tier.accepts and (missing := shortage(())[0]) > 0:
            evict(tier, missing, spared)

    async def _waited_for_turn(self, tier: Tier, seconds: float | None = None) -> bool:
        """Wait, at most so long, when enough is on its way down already; tell whether it was."""
        below = tier.below
        steps = self._steps[below] if below is not None and below.keeping is not None else ()
        if len(steps) < _AT_ONCE:
            return False
        await asyncio.wait(steps, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return True

    async def _step(
        self, tier: Tier, count: int, spared: Sequence[int], seconds: float | None = None
    ) -> list[int] | None:
        """Demote one step, and wait so long for it; what comes later is freed by itself."""
        step = self._jobs.start(self.demote(tier, count, spared))
        if tier.below is not None:
            steps = self._steps[tier.below]
            steps.add(step)
            step.add_done_callback(steps.discard)
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
        if moving:
            await self.room_in(below, costs_of(below.occupancy, tier.table, moving))
        wanted = set(moving)
        going = [
            (age, still_to_copy(tier, below, [slot for slot in some if slot in wanted]))
            for age, some in aged
        ]
        costs = costs_of(below.occupancy, tier.table, [s for _, some in going for s in some])
        room = fitting(below.occupancy, costs)
        chosen: list[Aged] = []
        for age, some in going:
            if fit := some[:room]:
                chosen.append((age, fit))
            room -= len(fit)
        return chosen


def _free(tier: Tier, step: _Step) -> None:
    if not step.cancelled() and step.exception() is None:
        tier.occupancy.unpin(step.result() or ())
