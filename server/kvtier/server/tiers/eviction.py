"""Evicting: blocks go because their room is needed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvtier.server.tiers.spaces import Space
from kvtier.server.tiers.table import Origin
from kvtier.v1.block_pb2 import REMOVAL_REASON_DEMOTED, REMOVAL_REASON_EVICTED

if TYPE_CHECKING:
    from kvtier.server.tiers.tier import Tier


def evict(tier: "Tier", count: int, spared: Sequence[int] = ()) -> list[tuple[Space, bytes]]:
    """Drop blocks that may go, sparing some slots; return what went, by space.

    A block that the tier below has too is not lost.
    """
    victims = [slot for _, slots in tier.occupancy.choose(count, spared) for slot in slots]
    groups = tier.table.by_origin(victims)
    gone = tier.packed(groups)
    tier.counters.removed += count
    _announce(tier, victims, gone)
    tier.occupancy.take_out(groups)
    tier.occupancy.free(victims)
    return [(origin.space, hashes) for origin, hashes in gone]


def _announce(tier: "Tier", victims: Sequence[int], gone: Sequence[tuple[Origin, bytes]]) -> None:
    below = tier.below
    if below is None:
        tier.counters.evicted += len(victims)
        tier.tally.removals[REMOVAL_REASON_EVICTED] += len(victims)
        tier.announcer.removed(gone, REMOVAL_REASON_EVICTED)
        return
    held = [slot for slot in victims if below.holds(tier.table.key[slot])]
    there = set(held)
    lost = [slot for slot in victims if slot not in there]
    tier.counters.evicted += len(lost)
    tier.counters.dropped += len(lost)
    tier.counters.demoted += len(held)
    for slots, reason in ((held, REMOVAL_REASON_DEMOTED), (lost, REMOVAL_REASON_EVICTED)):
        if slots:
            tier.tally.removals[reason] += len(slots)
            tier.announcer.removed(tier.packed(tier.table.by_origin(slots)), reason)
