"""What a walk along a chain finds out, from the masks of who holds its blocks."""

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from kvtier.client.source import MAX_TIERS

T = TypeVar("T")

# What a field can count to.
_MOST_COUNTED = (1 << MAX_TIERS) - 1


class Reach(Generic[T]):
    """How far along a chain each owner of a bit gets before its first hole.

    Args:
        bits: The bits of all owners.
        owners: Who owns each bit.

    Attributes:
        alive: The bits of those who had every block so far.
    """

    __slots__ = ("_lengths", "_owners", "alive")

    def __init__(self, bits: int, owners: Mapping[int, T]) -> None:
        self.alive = bits
        self._owners = owners
        self._lengths: dict[T, int] = {}

    def narrow(self, mask: int, length: int) -> None:
        """Go on to a block, with the bits of those who have it and its place in the chain."""
        lost = self.alive & ~mask
        self.alive &= mask
        while lost:
            bit = lost & -lost
            lost ^= bit
            self._lengths[self._owners[bit]] = length

    def end(self, length: int) -> dict[T, int]:
        """Return the reach of each owner, in a chain of this length."""
        self.narrow(0, length)
        return self._lengths


class Tally(Generic[T]):
    """How many blocks of each owner's prefix have their best copy in each class of holders.

    The lowest bit of each owner's field tells whether it has a block, so that adding masks up
    counts for all owners at once, each in its own field.

    Args:
        classes: The bits of the holders of each class, the best class first.
        owners: Who owns each field, by the field's lowest bit.
        shifts: The shifts that bring any bit of a field down to its lowest.
    """

    __slots__ = (
        "_classes",
        "_counts",
        "_owners",
        "_shifts",
        "_since",
        "_summed",
        "_sums",
        "_terms",
    )

    def __init__(
        self, classes: Sequence[int], owners: Mapping[int, T], shifts: Sequence[int]
    ) -> None:
        self._classes = classes
        self._owners = owners
        self._shifts = shifts
        self._terms = [0] * len(classes)
        self._sums = [0] * len(classes)
        self._since = self._summed = 0
        self._counts = {owner: [0] * len(classes) for owner in owners.values()}

    def turn(self, mask: int, alive: int, length: int) -> None:
        """Go on to a block that others hold than the one before it.

        Args:
            mask: The bits of its holders.
            alive: The fields of those who had every block so far, this one too.
            length: Its place in the chain.
        """
        self._add_up(length)
        for place, bits in enumerate(self._classes):
            here = mask & bits
            for shift in self._shifts:
                here |= here >> shift
            # Who has it in this class needs no worse one.
            self._terms[place] = here & alive
            alive &= ~here

    def end(self, length: int) -> dict[T, list[int]]:
        """Return the number of blocks by class for each owner, in a chain of this length."""
        self._add_up(length)
        self._spill()
        return self._counts

    def _add_up(self, length: int) -> None:
        """Count the blocks since the last turn, which all have the same holders."""
        while self._since < length:
            blocks = min(length - self._since, _MOST_COUNTED - self._summed)
            for place, term in enumerate(self._terms):
                self._sums[place] += term * blocks
            self._since += blocks
            self._summed += blocks
            if self._summed == _MOST_COUNTED:
                self._spill()

    def _spill(self) -> None:
        """Take the sums apart before a field overflows."""
        for place, total in enumerate(self._sums):
            for bit, owner in self._owners.items():
                self._counts[owner][place] += total // bit & _MOST_COUNTED
        self._sums = [0] * len(self._sums)
        self._summed = 0
