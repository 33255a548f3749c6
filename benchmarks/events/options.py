"""What a run of the benchmark is asked to do."""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

T = TypeVar("T")

_TINY = 200


class Options(NamedTuple):
    """How much to measure, and against whom.

    Attributes:
        vllm: The wheel or folder of vLLM; empty for none.
        turns: Measurements of each kind, in turns.
        tiny: Only show that everything works: the figures mean nothing.
    """

    vllm: str = ""
    turns: int = 3
    tiny: bool = False

    def scaled(self, count: int) -> int:
        """Return how many there are to be."""
        return max(1, count // _TINY) if self.tiny else count

    def some(self, values: Sequence[T]) -> Sequence[T]:
        """Return which of the values, of which the first is the cheapest, are to be measured."""
        return values[:1] if self.tiny else values
