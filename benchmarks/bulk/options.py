"""What a run of the benchmark is asked to do."""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class Options(NamedTuple):
    """How much to measure.

    Attributes:
        turns: Measurements of each kind, in turns.
        tiny: Only show that everything works: the figures mean nothing.
    """

    turns: int = 5
    tiny: bool = False

    def calls(self, wanted: int) -> int:
        """Return how many calls a measurement makes."""
        return 1 if self.tiny else wanted

    def some(self, values: Sequence[T]) -> Sequence[T]:
        """Return which of the values, of which the first is the cheapest, are to be measured."""
        return values[:1] if self.tiny else values
