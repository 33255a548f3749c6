"""What a proxy makes of requests, in plain words: two tiers of a primary, and secondaries of one.

A request is served from the first tier that has each block of its prefix; what the primary's fast
tier lacks of it comes up there, the rest is stored there, and all of it goes on to the secondaries.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple


class Block(NamedTuple):
    """A block of a trace: its place in the chain, and its id."""

    place: int
    id: int


class Age(NamedTuple):
    """What stamped blocks last: the name of a group, and when it was stamped."""

    stamp: int
    group: str


class PlainTier:
    """A tier under `lru`: groups by request, the tail of the oldest goes first.

    Args:
        capacity: Most blocks.

    Attributes:
        stored: Blocks that were stored here.
        removed: Blocks that went, by the reason.
        served: Blocks that were served from here.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.stored = self.served = 0
        self.removed: Counter[str] = Counter()
        self._stamps: dict[str, int] = {}
        self._groups: dict[str, set[Block]] = {}
        self._group_of: dict[Block, str] = {}

    def __contains__(self, block: Block) -> bool:
        return block in self._group_of

    @property
    def blocks(self) -> set[Block]:
        """What is here."""
        return set(self._group_of)

    def stamp(self, age: Age, blocks: Iterable[Block]) -> None:
        """Move those of some blocks that are here into a group, and the group to the front."""
        here = [block for block in blocks if block in self]
        if here or age.group in self._groups:
            self._stamps[age.group] = age.stamp
            self._join(age.group, here)

    def store(self, age: Age, blocks: Collection[Block]) -> None:
        """Store blocks of an age; there is room."""
        self.stored += len(blocks)
        self._stamps.setdefault(age.group, age.stamp)
        self._join(age.group, blocks)
        assert len(self._group_of) <= self.capacity

    def remove(self, blocks: Collection[Block], reason: str) -> None:
        """Let blocks go."""
        self.removed[reason] += len(blocks)
        for block in blocks:
            self._groups[self._group_of.pop(block)].remove(block)
        self._tidy()

    def victims(self, coming: int, spared: Collection[Block] = ()) -> list[tuple[Age, Block]]:
        """Return what has to go for so many blocks to come, the oldest first."""
        missing = len(self._group_of) + coming - self.capacity
        chosen: list[tuple[Age, Block]] = []
        for stamp, group in sorted((stamp, group) for group, stamp in self._stamps.items()):
            if len(chosen) >= missing:
                break
            tail = sorted(self._groups[group].difference(spared), reverse=True)
            chosen += [(Age(stamp, group), block) for block in tail[: missing - len(chosen)]]
        assert len(chosen) >= missing
        return chosen

    def _join(self, group: str, blocks: Iterable[Block]) -> None:
        mine = self._groups.setdefault(group, set())
        for block in blocks:
            if block in self:
                self._groups[self._group_of[block]].discard(block)
            self._group_of[block] = group
            mine.add(block)
        self._tidy()

    def _tidy(self) -> None:
        for group in [name for name, blocks in self._groups.items() if not blocks]:
            del self._groups[group], self._stamps[group]


class PlainCluster:
    """A primary whose fast tier gives what it evicts to its slow one, and secondaries.

    Args:
        fast: The primary's fast tier.
        slow: Its slow one.
        secondaries: The secondaries, in order.

    Attributes:
        tiers: All tiers, in the order in which they are asked.
    """

    def __init__(self, fast: PlainTier, slow: PlainTier, secondaries: Sequence[PlainTier]) -> None:
        self.tiers = [fast, slow, *secondaries]
        self._fast, self._slow, self._secondaries = fast, slow, secondaries
        self._stamps = 0

    def serve(self, number: int, ids: Sequence[int]) -> list[int]:
        """Play a request; return which tier served each block of its prefix, by its number."""
        chain = [Block(place, each) for place, each in enumerate(ids)]
        served = self._prefix(chain)
        for place in served:
            self.tiers[place].served += 1
        age = self._age(str(number))
        for tier in self.tiers:
            tier.stamp(age, chain)
        self._bring(age, chain[: len(served)], chain)
        # What the fast and the slow tier hold together has no holes: the rest is in neither.
        assert not any(block in self._slow for block in chain)
        self._bring(age, chain, chain)
        for secondary in self._secondaries:
            # What is pulled is a group of its own.
            self._pull(secondary, self._age(f"pull {number}"), chain)
        return served

    def _age(self, group: str) -> Age:
        self._stamps += 1
        return Age(self._stamps, group)

    def _prefix(self, chain: Sequence[Block]) -> list[int]:
        served: list[int] = []
        for block in chain:
            has = [number for number, tier in enumerate(self.tiers) if block in tier]
            if not has:
                break
            served.append(has[0])
        return served

    def _bring(self, age: Age, wanted: Sequence[Block], chain: Sequence[Block]) -> None:
        """Let the fast tier have blocks of a chain; what the slow one has of them moves up."""
        fast, slow = self._fast, self._slow
        coming = [block for block in wanted if block not in fast]
        slow.remove([block for block in coming if block in slow], "PROMOTED")
        leaving = fast.victims(len(coming), chain)
        slow.remove([block for _, block in slow.victims(len(leaving))], "EVICTED")
        fast.remove([block for _, block in leaving], "DEMOTED")
        for each, block in leaving:
            slow.store(each, [block])
        fast.store(age, coming)
        fast.stamp(age, chain)

    def _pull(self, tier: PlainTier, age: Age, chain: Sequence[Block]) -> None:
        coming = [block for block in chain if block not in tier]
        tier.remove([block for _, block in tier.victims(len(coming), coming)], "EVICTED")
        tier.store(age, coming)
