"""How many blocks the events speak of, by where they are."""

from typing import TypeAlias

from kvtier.server.events.parts import CLEARED, REMOVED, Part

Change: TypeAlias = tuple[int, int, bytes, int]


class BlockCounts:
    """The blocks that became readable less those that ceased to be, by tier and namespace."""

    def __init__(self) -> None:
        self._blocks: dict[tuple[int, int, bytes], int] = {}

    def apply(self, part: Part) -> list[Change]:
        """Count one event.

        Returns:
            What it changed: tier, medium, namespace, and how many blocks more or fewer.
        """
        if part.field == CLEARED:
            return self._clear(part.tier, part.namespace)
        place = (part.tier, part.medium, part.namespace)
        change = -part.blocks if part.field == REMOVED else part.blocks
        self._blocks[place] = self._blocks.get(place, 0) + change
        return [(*place, change)]

    def _clear(self, tier: int, namespace: bytes) -> list[Change]:
        dropped = [
            place
            for place in self._blocks
            if place[0] == tier and place[2] == (namespace or place[2])
        ]
        return [(*place, -self._blocks.pop(place)) for place in dropped]
