"""Victims: blocks that were claimed to go, and may be taken back until their copies end."""

from collections.abc import Sequence

from kvtier.server.tiers.policy import Aged
from kvtier.server.tiers.table import READY
from kvtier.server.tiers.tier import Tier


def may_leave(tier: Tier, slot: int, known_to: Tier | None = None) -> bool:
    """Tell whether a victim may go: nobody leased, stamped or deleted it since it was claimed.

    Args:
        tier: The tier that claimed it.
        slot: Its slot.
        known_to: A tier that must have the block for it to go.
    """
    occupancy, table = tier.occupancy, tier.table
    return (
        table.state[slot] == READY
        and not occupancy.busy(slot)
        and not occupancy.policy.ages([slot])
        and (known_to is None or known_to.holds(table.key[slot]))
    )


def give_back(tier: Tier, aged: Sequence[Aged], leaving: set[int]) -> None:
    """Let go of the victims that stay; those that nobody stamped are as old as they were.

    Args:
        tier: The tier that claimed them.
        aged: The victims.
        leaving: Those that have gone; their slots stay held.
    """
    occupancy, state = tier.occupancy, tier.table.state
    for age, some in aged:
        staying = [slot for slot in some if slot not in leaving]
        known = {slot for _, slots in occupancy.policy.ages(staying) for slot in slots}
        back = [slot for slot in staying if state[slot] == READY and slot not in known]
        if back:
            occupancy.policy.enter(age, back)
        occupancy.end_copies(some)
        occupancy.unpin(staying)
