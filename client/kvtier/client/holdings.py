"""Who holds which blocks, for the blocks of one namespace, group and scope."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress, repeat
from operator import and_, not_, or_
from typing import Generic, TypeVar

Holder = TypeVar("Holder")

# Below this, sweeping costs more than the memory that it brings back.
_MIN_GARBAGE = 1024


class Holdings(Generic[Holder]):
    """One table from a hash to a bit mask of its holders.

    A holder can be anything hashable; here it is one tier of one node. Dropping a holder takes its
    bit out of the live mask at once; its entries are swept when they outnumber the others, so that
    the cost of a block stays constant and memory comes back.
    """

    def __init__(self) -> None:
        self._masks: dict[bytes, int] = {}
        self._bits: dict[Holder, int] = {}
        self._counts: dict[Holder, int] = {}
        self._live = 0
        self._garbage = 0
        self._retired = 0

    def __len__(self) -> int:
        """Return the number of blocks over all holders; one that two hold counts twice."""
        return sum(self._counts.values())

    def count(self, holder: Holder) -> int:
        """Return the number of blocks of a holder."""
        return self._counts.get(holder, 0)

    def add(self, holder: Holder, hashes: Sequence[bytes]) -> None:
        """Note that a holder has these blocks; hashes are distinct."""
        bit = self._bits.get(holder) or self._new_bit(holder)
        # Loops over blocks run inside map and update, at half the cost of a loop in Python.
        before = list(map(self._masks.get, hashes, repeat(0)))
        self._masks.update(zip(hashes, map(or_, before, repeat(bit)), strict=True))
        self._counts[holder] += len(hashes) - sum(map(bool, map(and_, before, repeat(bit))))

    def remove(self, holder: Holder, hashes: Sequence[bytes]) -> None:
        """Note that a holder has none of these blocks; hashes are distinct."""
        bit = self._bits.get(holder)
        if bit is None:
            return
        before = list(map(self._masks.get, hashes, repeat(0)))
        after = list(map(and_, before, repeat(~bit)))
        self._masks.update(zip(hashes, after, strict=True))
        gone = compress(hashes, map(not_, after))
        deque(map(self._masks.pop, gone), maxlen=0)
        self._counts[holder] -= sum(map(bool, map(and_, before, repeat(bit))))

    def drop(self, holder: Holder) -> None:
        """Forget everything that a holder has."""
        bit = self._bits.pop(holder, None)
        if bit is None:
            return
        self._garbage += self._counts.pop(holder)
        self._live &= ~bit
        self._retired |= bit
        if self._garbage > max(len(self), _MIN_GARBAGE):
            self._sweep()

    def blocks(self, holder: Holder) -> Iterator[bytes]:
        """Return the hashes of a holder's blocks."""
        bit = self._bits.get(holder, 0)
        return compress(self._masks, map(and_, self._masks.values(), repeat(bit)))

    def masks(self, hashes: Iterable[bytes]) -> list[int]:
        """Return the mask of each block, 0 where nobody has it."""
        return list(map(and_, map(self._masks.get, hashes, repeat(0)), repeat(self._live)))

    def bits(self) -> Iterable[tuple[Holder, int]]:
        """Return each holder's bit."""
        return self._bits.items()

    def _new_bit(self, holder: Holder) -> int:
        used = self._live | self._retired
        bit = ~used & (used + 1)
        self._bits[holder] = bit
        self._counts[holder] = 0
        self._live |= bit
        return bit

    def _sweep(self) -> None:
        live = map(and_, self._masks.values(), repeat(self._live))
        self._masks = {each: mask for each, mask in zip(self._masks, live, strict=True) if mask}
        self._garbage = self._retired = 0


def prefix_lengths(masks: Sequence[int], groups: dict[Holder, int]) -> dict[Holder, int]:
    """Return how many blocks from the first on each group of holders has, without a hole.

    Args:
        masks: The mask of each block of a chain, parent first.
        groups: For each group the union of its holders' bits.
    """
    lengths = dict.fromkeys(groups, len(masks))
    open_groups = dict(groups)
    known: int | None = None
    for length, mask in enumerate(masks):
        # Along a chain the holders seldom change.
        if mask == known:
            continue
        known = mask
        for group in [group for group, bits in open_groups.items() if not mask & bits]:
            lengths[group] = length
            del open_groups[group]
        if not open_groups:
            break
    return lengths
