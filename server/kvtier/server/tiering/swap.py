"""Two full tiers change blocks: some move up, and others down into the room that these leave.

The bytes pass through spare slots, and either both blocks of a pair change places or neither does.
"""

import asyncio
from collections.abc import Sequence

from kvtier.server.events.log import EventLog
from kvtier.server.tiering.copier import Copier
from kvtier.server.tiering.legs import Leg, ages_of, begin, may_arrive, settle, still_to_copy
from kvtier.server.tiering.victims import give_back, may_leave
from kvtier.server.tiers.policy import Aged
from kvtier.server.tiers.room import evictable
from kvtier.server.tiers.tier import Tier
from kvtier.v1.block_pb2 import REMOVAL_REASON_DEMOTED, REMOVAL_REASON_PROMOTED


async def swap(
    log: EventLog,
    copier: Copier,
    lower: Tier,
    upper: Tier,
    slots: Sequence[int],
    *,
    spared: Sequence[int],
) -> tuple[Leg, list[bool]] | None:
    """Move blocks up into a full tier, and as many of its oldest down.

    Args:
        log: The node's event log.
        copier: Copies bytes.
        lower: Where the blocks are.
        upper: The tier above it, whose evicted blocks go there.
        slots: The blocks' slots, which the caller holds for a copy.
        spared: Slots of the upper tier whose blocks stay there.

    Returns:
        What moved up, settled, and which bytes were copied; None when there is no room.
    """
    room = min(lower.table.lendable, upper.table.lendable, evictable(upper.occupancy, spared))
    count = min(len(slots), room)
    if count <= 0:
        return None
    aged = upper.occupancy.claim(count, spared)
    victims = [slot for _, some in aged for slot in some]
    leaving: set[int] = set()
    up = begin(lower, upper, ages_of(lower, slots[:count]), REMOVAL_REASON_PROMOTED)
    down = begin(upper, lower, _to_copy(upper, lower, aged), REMOVAL_REASON_DEMOTED)
    upper.table.lent += len(up.slots)
    lower.table.lent += len(down.slots)
    try:
        copied, copied_down = await asyncio.gather(copier.copy(up), copier.copy(down))
        up.arrived = may_arrive(up, copied)
        ready = dict(zip(down.slots, may_arrive(down, copied_down), strict=True))
        going = _decide(lower, upper, up, victims, ready)
        up.leaving = up.arrived
        down.arrived = down.leaving = [slot in going for slot in down.slots]
        known = [slot for slot in victims if slot in going and slot not in ready]
        settle(log, up, down, also_gone=(upper, known))
        leaving = going
        upper.counters.demoted += len(going)
    finally:
        upper.table.lent -= len(up.slots)
        lower.table.lent -= len(down.slots)
        give_back(upper, aged, leaving)
        upper.occupancy.unpin(list(leaving))
    return up, copied


def _to_copy(upper: Tier, lower: Tier, aged: Sequence[Aged]) -> list[Aged]:
    copying = [(age, still_to_copy(upper, lower, some)) for age, some in aged]
    return [(age, some) for age, some in copying if some]


def _decide(
    lower: Tier, upper: Tier, up: Leg, victims: Sequence[int], ready: dict[int, bool]
) -> set[int]:
    """Pair the blocks that arrived above with victims that may go; return these.

    What arrived without a partner did not arrive.
    """
    may_go = [
        slot
        for slot in victims
        if may_leave(upper, slot, None if slot in ready else lower) and ready.get(slot, True)
    ]
    busy = lower.occupancy.busy
    arrived = [there and not busy(slot) for there, slot in zip(up.arrived, up.slots, strict=True)]
    pairs = min(len(may_go), sum(arrived))
    left = pairs
    for i, there in enumerate(arrived):
        arrived[i] = there and left > 0
        left -= arrived[i]
    up.arrived = arrived
    return set(may_go[:pairs])
