"""How many blocks the events speak of, by where they are."""

from collections import defaultdict
from collections.abc import Mapping

from kvtier.server.events.parts import REMOVED, Part

Place = tuple[int, int, bytes]


class BlockCounts:
    """The blocks that became readable less those that ceased to be, by tier and namespace."""

    def __init__(self) -> None:
        self._blocks: defaultdict[Place, int] = defaultdict(int)

    def begin(self, blocks: Mapping[Place, int]) -> None:
        """Count on from these numbers, whatever was counted before."""
        self._blocks.clear()
        self._blocks.update(blocks)

    def total(self, tier: int, namespaces: frozenset[bytes] | None) -> int:
        """Return the number of blocks of a tier, of some namespaces or of all."""
        return sum(
            blocks
            for place, blocks in self._blocks.items()
            if place[0] == tier and (namespaces is None or place[2] in namespaces)
        )

    def change(self, place: Place, part: Part) -> int:
        """Count a store or removal at a place; return by how much the number of blocks changed."""
        change = -part.blocks if part.field == REMOVED else part.blocks
        self._blocks[place] += change
        if not self._blocks[place]:
            del self._blocks[place]
        return change

    def clear(self, part: Part) -> list[tuple[Place, int]]:
        """Count a clear, and return where how many blocks went."""
        cleared = [
            place
            for place in self._blocks
            if place[0] == part.tier and place[2] == (part.namespace or place[2])
        ]
        return [(place, self._blocks.pop(place)) for place in cleared]
