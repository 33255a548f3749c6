"""Walking a tier's table slot by slot, while it changes."""

from collections.abc import Iterator

from kvtier.server.events.parts import Part
from kvtier.server.tiers.table import READY, BlockTable
from kvtier.server.tiers.tier import Tier

WINDOW = 2048


def ready_slots(table: BlockTable, first: int) -> list[int]:
    """Return the readable slots among the `WINDOW` slots from one on."""
    window = table.state[first : first + WINDOW]
    return [slot for slot, state in enumerate(window, first) if state == READY]


def snapshot(tier: Tier) -> Iterator[list[Part]]:
    """Walk a tier's readable blocks, at most `WINDOW` at a time.

    Each slice is taken when it is asked for. A block stays in its slot for life, so one that is
    readable during the whole walk is in exactly one slice.
    """
    table, first = tier.table, 0
    while first < len(table):
        found = ready_slots(table, first)
        first += WINDOW
        yield tier.announcer.stored_parts(table, table.by_origin(found)) if found else []
