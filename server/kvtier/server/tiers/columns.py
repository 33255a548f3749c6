"""Reading many entries of a column at once."""

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any


def gather(slots: Sequence[int]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """Return a function that gives a column's entries at these slots, in order.

    An `itemgetter` of many items runs in C at half the cost of a comprehension.
    """
    if len(slots) > 1:
        return itemgetter(*slots)
    return lambda column: tuple(column[slot] for slot in slots)
