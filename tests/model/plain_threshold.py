"""What a store threshold means, in a list: slow, and plain to see."""

from collections.abc import Mapping, Sequence

from tests.model.plain_parts import Key


class PlainThreshold:
    """How often the keys were offered that were offered last.

    Args:
        offers: From which offer on a block is stored.
        tracked: Keys that are remembered.
    """

    def __init__(self, offers: int, tracked: int) -> None:
        self._offers = offers
        self._tracked = tracked
        self._known: list[tuple[Key, int]] = []

    def admits(self, count: int) -> bool:
        """Tell whether a block is stored at its offer of this number."""
        return count >= self._offers

    def counts(self, keys: Sequence[Key]) -> dict[Key, int]:
        """Return the number of the offer that is made now of each key, which is absent."""
        return {key: dict(self._known).get(key, 0) + 1 for key in keys}

    def remember(self, counts: Mapping[Key, int]) -> None:
        """Remember an offer that was granted; its first block is forgotten last."""
        others = [each for each in self._known if each[0] not in counts]
        self._known = [*others, *reversed(list(counts.items()))][-self._tracked :]
