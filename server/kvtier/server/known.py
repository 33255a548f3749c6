"""Numbers of a request that stand for something."""

from collections.abc import Iterable
from typing import Protocol

from kvtier.wire.errors import invalid


class Enum(Protocol):
    """A generated enum."""

    def values(self) -> Iterable[int]:
        """Return its numbers."""


def check_known(what: str, plural: str, numbers: Iterable[int], enum: Enum) -> frozenset[int]:
    """Return the numbers, each of which an enum has; 0 is none.

    Args:
        what: What a number stands for.
        plural: The same of several.
        numbers: The numbers.
        enum: The enum.

    Raises:
        KvtierError: INVALID_ARGUMENT when one is not known.
    """
    known = [number for number in enum.values() if number]
    for number in numbers:
        if number not in known:
            raise invalid(f"{what} {number} is not known; the {plural} are {known}")
    return frozenset(numbers)
