"""What follows from how blocks were read from a tier's shelf."""

from collections.abc import Sequence

import structlog

from kvtier.server.lasting.moving import Outcome
from kvtier.server.tiers.tier import Tier

_log = structlog.get_logger(__name__)


def drop_unsound(tier: Tier, slots: Sequence[int], outcomes: Sequence[Outcome]) -> list[bool]:
    """Remove blocks that have vanished or are damaged; tell which were read whole.

    A block that could not be read for another reason stays: the tier's trouble may pass.
    """
    return [outcome is Outcome.DONE for outcome in settle_losses(tier, slots, outcomes)]


def settle_losses(tier: Tier, slots: Sequence[int], outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Do what `drop_unsound` does; return what is to be said of each block.

    A block that fails again and again is DAMAGED, as `Keeping.judge` has it.
    """
    assert tier.keeping is not None
    settled = tier.keeping.judge(slots, outcomes)
    counters = tier.counters
    lost, damaged = counters.lost, counters.corrupt
    for slot, outcome in zip(slots, settled, strict=True):
        if outcome is Outcome.MISSING:
            tier.drop_lost(slot)
        elif outcome is Outcome.DAMAGED:
            tier.drop_corrupt(slot)
    lost, damaged = counters.lost - lost, counters.corrupt - damaged
    if lost or damaged:
        # Not of those that were deleted meanwhile.
        _log.warning("blocks are lost or damaged", tier=tier.name, lost=lost, damaged=damaged)
    return settled
