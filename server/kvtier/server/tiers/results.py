"""What is said of the slots in which blocks were looked for."""

from collections.abc import Sequence

from kvtier.server.tiers.columns import gather
from kvtier.server.tiers.table import READY, BlockTable
from kvtier.v1.result_pb2 import (
    LOOKUP_RESULT_HIT,
    LOOKUP_RESULT_HIT_PENDING,
    LOOKUP_RESULT_MISS,
    LookupResult,
)


def examine(
    table: BlockTable, found: list[int | None]
) -> tuple[list[LookupResult.ValueType], list[int | None]]:
    """Return the result of each block, and its slot where it is readable.

    Args:
        table: The table.
        found: The slot of each block there, as its index says; where all are readable it is what
            is returned.
    """
    state = table.state
    slots = [slot for slot in found if slot is not None]
    if slots and len(slots) == gather(slots)(state).count(READY) == len(found):
        return [LOOKUP_RESULT_HIT] * len(found), found
    results = [
        LOOKUP_RESULT_MISS
        if slot is None
        else LOOKUP_RESULT_HIT
        if state[slot] == READY
        else LOOKUP_RESULT_HIT_PENDING
        for slot in found
    ]
    readable = [
        slot if result == LOOKUP_RESULT_HIT else None
        for slot, result in zip(found, results, strict=True)
    ]
    return results, readable


def each_once(slots: Sequence[int | None]) -> list[int]:
    """Return the slots that there are, each once, in the order of first appearance."""
    there = [slot for slot in slots if slot is not None]
    return there if len(set(there)) == len(there) else list(dict.fromkeys(there))
