"""Bringing chosen blocks from one tier of a node to another."""

import asyncio
from collections.abc import Sequence
from itertools import takewhile

from kvtier.server.events.log import EventLog
from kvtier.server.tiering.copier import Copier
from kvtier.server.tiering.demotion import Demoter
from kvtier.server.tiering.legs import Leg, ages_of, begin, may_arrive, settle, still_to_copy
from kvtier.server.tiering.links import batch_blocks, most_blocks
from kvtier.server.tiering.swap import swap
from kvtier.server.tiers.room import costs_of, fitting, lacking
from kvtier.server.tiers.table import PENDING as PENDING_SLOT
from kvtier.server.tiers.table import READY, WRITTEN
from kvtier.server.tiers.tier import Tier
from kvtier.v1.block_pb2 import REMOVAL_REASON_DEMOTED, REMOVAL_REASON_PROMOTED
from kvtier.v1.result_pb2 import CopyResult

COPIED = CopyResult.COPY_RESULT_COPIED
PRESENT = CopyResult.COPY_RESULT_PRESENT
PENDING = CopyResult.COPY_RESULT_PENDING
MISS = CopyResult.COPY_RESULT_MISS
NO_ROOM = CopyResult.COPY_RESULT_NO_ROOM
CORRUPT = CopyResult.COPY_RESULT_CORRUPT
FAILED = CopyResult.COPY_RESULT_FAILED
DELETED = CopyResult.COPY_RESULT_DELETED

_IN_USE = {PENDING_SLOT, WRITTEN, READY}
Results = list[CopyResult.ValueType]
_BySlot = dict[int, CopyResult.ValueType]


class Carrier:
    """Copies or moves blocks, a step at a time.

    Args:
        log: The node's event log.
        tiers: The node's tiers, from fastest to slowest.
        copier: Copies bytes.
        demoter: Makes room.
    """

    def __init__(
        self, log: EventLog, tiers: Sequence[Tier], copier: Copier, demoter: Demoter
    ) -> None:
        self._log = log
        self._tiers = tiers
        self._copier = copier
        self._demoter = demoter
        self._swapping: dict[Tier, asyncio.Lock] = {}

    async def step(
        self,
        source: Tier,
        target: Tier,
        slots: Sequence[int],
        *,
        move: bool,
        offer: frozenset[bytes] = frozenset(),
    ) -> Results:
        """Carry some blocks, the first of those given; return what became of each.

        What is answered for is at least one block, unless there are none. Copies take no room
        from blocks of the offer. Blocks that arrived are held for a copy in the target, for the
        caller to let go.

        Args:
            source: Where the blocks are.
            target: Where they go.
            slots: The blocks' slots, which the caller holds for a copy.
            move: Take them out of the source, unless somebody leases them there.
            offer: All blocks of the call that these belong to.
        """
        some = list(slots[: most_blocks(source, target)])
        some = some[: batch_blocks(source, some)]
        going = still_to_copy(source, target, some)
        others = set(some).difference(going)
        results = {slot: _settled(source, target, slot) for slot in others}
        move = move and source.accepts
        if going and not target.accepts:
            target.counters.copies_failed += len(going)
            results |= dict.fromkeys(going, FAILED)
        elif going:
            moves = [move and not source.occupancy.busy(slot) for slot in going]
            alike = going[: sum(1 for _ in takewhile(lambda each: each == moves[0], moves))]
            costs = costs_of(target.occupancy, source.table, alike)
            spared = _spared(target, offer) if lacking(target.occupancy, costs) > 0 else ()
            if moves[0]:
                results |= await self._move(source, target, alike, spared)
            else:
                results |= await self._copy(source, target, alike, spared)
        if move:
            self._leave(source, target, [s for s, result in results.items() if result == PRESENT])
        answered: Results = []
        for slot in some:
            if slot not in results:
                break
            answered.append(results[slot])
        return answered

    def _leave(self, source: Tier, target: Tier, slots: Sequence[int]) -> None:
        """Take blocks out of the source that the target has already."""
        state, key, busy = source.table.state, source.table.key, source.occupancy.busy
        going = [
            slot
            for slot in slots
            if state[slot] == READY and target.holds(key[slot]) and not busy(slot)
        ]
        reason = self._reason(source, target)
        source.remove(going, reason)
        if reason == REMOVAL_REASON_DEMOTED:
            source.counters.demoted += len(going)

    def _reason(self, source: Tier, target: Tier) -> int:
        up = self._tiers.index(target) < self._tiers.index(source)
        return REMOVAL_REASON_PROMOTED if up else REMOVAL_REASON_DEMOTED

    async def _move(
        self, source: Tier, target: Tier, slots: Sequence[int], spared: Sequence[int]
    ) -> _BySlot:
        if target.below is not source or source.keeping is not None:
            reason = self._reason(source, target)
            return await self._copy(source, target, slots, spared, reason=reason)
        room = min(len(slots), target.table.free)
        if room > 0:
            aged = ages_of(source, slots[:room])
            return await self._finish(begin(source, target, aged, REMOVAL_REASON_PROMOTED))
        # One at a time: two would wait for each other's spare slots.
        async with self._swapping.setdefault(target, asyncio.Lock()):
            going = still_to_copy(source, target, slots)
            swapped = await swap(self._log, self._copier, source, target, going, spared=spared)
        gone = {slot: _settled(source, target, slot) for slot in set(slots).difference(going)}
        if swapped is None:
            return gone | dict.fromkeys(going, NO_ROOM)
        return gone | self._account(swapped[0], outcomes(*swapped, unwanted=NO_ROOM))

    async def _copy(
        self,
        source: Tier,
        target: Tier,
        slots: Sequence[int],
        spared: Sequence[int],
        *,
        reason: int = 0,
    ) -> _BySlot:
        costs = costs_of(target.occupancy, source.table, slots)
        await self._demoter.room_in(target, costs, spared)
        # While room was made, some may have gone, or have come another way.
        wanted = still_to_copy(source, target, slots)
        room = fitting(target.occupancy, costs_of(target.occupancy, source.table, wanted))
        others = set(slots) - set(wanted if room else ())
        settled = {slot: _settled(source, target, slot) for slot in others}
        leg = begin(source, target, ages_of(source, wanted[:room]), reason)
        return settled | await self._finish(leg)

    async def _finish(self, leg: Leg) -> _BySlot:
        copied = await self._copier.copy(leg)
        leg.arrived = may_arrive(leg, copied)
        busy = leg.source.occupancy.busy
        leg.leaving = [
            bool(leg.reason) and there and not busy(slot)
            for there, slot in zip(leg.arrived, leg.slots, strict=True)
        ]
        settle(self._log, leg)
        return self._account(leg, outcomes(leg, copied))

    def _account(self, leg: Leg, results: _BySlot) -> _BySlot:
        """Count what a settled leg did, and hold what arrived until somebody could use it."""
        target, told = leg.target, list(results.values())
        if self._reason(leg.source, target) == REMOVAL_REASON_PROMOTED:
            target.counters.promoted += told.count(COPIED)
        else:
            leg.source.counters.demoted += sum(leg.leaving)
        target.counters.copies_failed += told.count(FAILED) + told.count(CORRUPT)
        target.occupancy.hold_for_copy(
            [place for place, there in zip(leg.into, leg.arrived, strict=True) if there]
        )
        return results


def let_go_of_copies(
    source: Tier, target: Tier, slots: Sequence[int], results: Sequence[int]
) -> None:
    """Let go of what a step brought, right after it."""
    copied = [slot for slot, result in zip(slots, results, strict=False) if result == COPIED]
    found = target.table.index.get_many([source.table.key[slot] for slot in copied])
    places = [place for place in found if place is not None]
    target.occupancy.let_go_of_copies(places)


def outcomes(
    leg: Leg, copied: Sequence[bool], *, unwanted: CopyResult.ValueType = DELETED
) -> _BySlot:
    """Return what became of each block of a settled leg, by its slot in the source.

    Args:
        leg: The leg.
        copied: Whether the bytes of each were copied whole.
        unwanted: What is said of those that were and did not arrive.
    """
    state = leg.source.table.state

    def failure(slot: int) -> CopyResult.ValueType:
        if slot in leg.vanished:
            return MISS
        return FAILED if state[slot] == READY else CORRUPT

    return {
        slot: COPIED if there else unwanted if good else failure(slot)
        for slot, there, good in zip(leg.slots, leg.arrived, copied, strict=True)
    }


def _spared(target: Tier, offer: frozenset[bytes]) -> list[int]:
    """Return the slots of an offer's own blocks."""
    table = target.table
    if len(table) < len(offer):
        used = (slot for slot, state in enumerate(table.state) if state in _IN_USE)
        return [slot for slot in used if table.key[slot] in offer]
    return [slot for slot in table.index.get_many(offer) if slot is not None]


def _settled(source: Tier, target: Tier, slot: int) -> CopyResult.ValueType:
    """Return what is to be said of a block that is not copied."""
    place = target.table.index.get(source.table.key[slot])
    if place is not None:
        return PRESENT if target.table.state[place] == READY else PENDING
    return NO_ROOM if source.table.state[slot] == READY else MISS
