"""Copies between two tiers of a node: how they begin, and how they become visible."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kvtier.server.events.log import EventLog
from kvtier.server.tiers.columns import gather
from kvtier.server.tiers.occupancy import Occupancy
from kvtier.server.tiers.policy import OLDEST, Aged
from kvtier.server.tiers.table import PENDING, READY
from kvtier.server.tiers.tier import Tier
from kvtier.v1.block_pb2 import REMOVAL_REASON_DEMOTED


@dataclass(slots=True)
class Leg:
    """Blocks on their way from one tier to another.

    Both ends are held until `settle`: nothing is evicted, reused or given out meanwhile.

    Attributes:
        source: Where the blocks are.
        target: Where they go.
        slots: Their slots in the source.
        into: Their slots in the target.
        reason: Why they leave the source, a `RemovalReason`; 0 when they stay there too.
        arrived: Whether each was copied and shall be readable in the target.
        leaving: Whether each shall leave the source.
        vanished: Slots whose blocks were found missing from the source's shelf.
        given_up: A shelf had not moved some of them at its deadline.
        late: Slots of the target that a thread may fill yet, and what ends when none does.
    """

    source: Tier
    target: Tier
    slots: list[int]
    into: list[int]
    reason: int = 0
    arrived: list[bool] = field(default_factory=list)
    leaving: list[bool] = field(default_factory=list)
    vanished: set[int] = field(default_factory=set)
    given_up: bool = False
    late: list[tuple[Sequence[int], asyncio.Future[Any]]] = field(default_factory=list)

    def lengths(self) -> list[int]:
        """Return the bytes of each block."""
        origin = self.source.table.origin
        return [origin[slot].space.block_bytes for slot in self.slots]

    def gone(self) -> list[int]:
        """Return the slots of the source whose blocks leave it."""
        return [slot for slot, leaves in zip(self.slots, self.leaving, strict=True) if leaves]


def begin(source: Tier, target: Tier, aged: Sequence[Aged], reason: int = 0) -> Leg:
    """Take slots in the target for blocks of the source, which has room for them.

    Args:
        source: Where the blocks are; their slots are held for the copy.
        target: Where they go; it has none of them.
        aged: The slots, by age.
        reason: Why they leave the source; 0 when they stay.
    """
    slots = [slot for _, some in aged for slot in some]
    assert len(set(slots)) == len(slots)
    into = target.occupancy.take(len(slots))
    if not slots:
        return Leg(source, target, slots, into, reason)
    target.occupancy.enter_copies(source.table, list(zip(slots, into, strict=True)))
    first = 0
    for age, some in aged:
        target.occupancy.policy.enter(age, into[first : first + len(some)])
        first += len(some)
    return Leg(source, target, slots, into, reason)


def still_to_copy(source: Tier, target: Tier, slots: Sequence[int]) -> list[int]:
    """Return the slots whose blocks are readable, absent from a target, and fit its slots."""
    table, index = source.table, target.table.index
    origins = {table.origin[slot] for slot in slots}
    fit = {each for each in origins if target.takes(each.space, each.adapter_name)}
    return [
        slot
        for slot in slots
        if table.state[slot] == READY
        and index.get(table.key[slot]) is None
        and table.origin[slot] in fit
    ]


def ages_of(source: Tier, slots: Sequence[int]) -> list[Aged]:
    """Return slots by age; one that the policy knows no more is as old as can be."""
    aged = source.occupancy.policy.ages(slots)
    known = {slot for _, some in aged for slot in some}
    unknown = [slot for slot in slots if slot not in known]
    return [*aged, (OLDEST, unknown)] if unknown else aged


def may_arrive(leg: Leg, copied: Sequence[bool]) -> list[bool]:
    """Tell which blocks were copied and are still wanted at both ends."""
    here, there = leg.source.table.state, leg.target.table.state
    return [
        good and here[slot] == READY and there[place] == PENDING
        for good, slot, place in zip(copied, leg.slots, leg.into, strict=True)
    ]


def settle(log: EventLog, *legs: Leg, also_gone: tuple[Tier, Sequence[int]] | None = None) -> None:
    """Let what arrived be seen and what leaves be gone, in one batch; give the rest back.

    Who called `begin` lets go of the source's slots afterwards.

    Args:
        log: The node's event log.
        legs: What was copied, with `arrived` and `leaving`.
        also_gone: Slots of a tier that its lower one has already, and that leave it too.
    """
    with log.together():
        if also_gone is not None:
            also_gone[0].remove(also_gone[1], REMOVAL_REASON_DEMOTED)
        for leg in legs:
            leg.source.remove(leg.gone(), leg.reason)
        for leg in legs:
            _publish(leg)
    for leg in legs:
        _give_back(leg)


def _publish(leg: Leg) -> None:
    done = [pair for pair, there in zip(_pairs(leg), leg.arrived, strict=True) if there]
    if not done:
        return
    slots, into = [slot for slot, _ in done], [place for _, place in done]
    leg.target.mark_written(into, gather(slots)(leg.source.table.checksum))
    leg.target.occupancy.end_copies(into)
    leg.target.publish(into)


def _give_back(leg: Leg) -> None:
    occupancy = leg.target.occupancy
    lost = [place for place, there in zip(leg.into, leg.arrived, strict=True) if not there]
    if lost:
        state = leg.target.table.state
        occupancy.cut_off([place for place in lost if state[place] == PENDING])
        gone = set(lost)
        for places, ended in leg.late:
            _keep_until(ended, occupancy, [place for place in places if place in gone])
        occupancy.let_go_of_copies(lost)


def _keep_until(ended: asyncio.Future[Any], occupancy: Occupancy, places: list[int]) -> None:
    """Keep slots whose blocks are gone from being used again while a thread may fill them."""
    occupancy.hold(places)
    occupancy.quarantine(places)
    ended.add_done_callback(lambda _: occupancy.end_quarantine(places))


def _pairs(leg: Leg) -> list[tuple[int, int]]:
    return list(zip(leg.slots, leg.into, strict=True))
