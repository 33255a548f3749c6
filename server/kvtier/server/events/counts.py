"""How many blocks the events speak of, by where they are."""

from collections import defaultdict

from kvtier.server.events.parts import REMOVED, Part

Place = tuple[int, int, bytes]


class BlockCounts:
    """The blocks that became readable less those that ceased to be, by tier and namespace."""

    def __init__(self) -> None:
        self._blocks: defaultdict[Place, int] = defaultdict(int)

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
