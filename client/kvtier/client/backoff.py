"""Pauses between tries that many clients do not take in step."""

import random
from collections.abc import Callable

BASE_SECONDS = 0.1
CAP_SECONDS = 5.0


class Backoff:
    """Full jitter: the n-th pause is random between 0 and a bound that doubles up to a cap.

    After a node's restart its followers thus come back spread out, not all at once.
    """

    def __init__(
        self,
        *,
        base: float = BASE_SECONDS,
        cap: float = CAP_SECONDS,
        random: Callable[[], float] = random.random,
    ) -> None:
        self.cap = cap
        self._base = base
        self._random = random
        self._bound = min(base, cap)

    def next(self, at_least: float = 0.0) -> float:
        """Return the next pause in seconds; the other side may have asked for a least one.

        What it asked for is the same for all that it asked, so the random part comes on top. Of a
        request for more than half the cap, half the cap is heeded.
        """
        least = min(at_least, self.cap / 2)
        pause = least + self._random() * min(self._bound, self.cap - least)
        self._bound = min(self._bound * 2, self.cap)
        return pause

    def reset(self) -> None:
        """Start over with the shortest bound."""
        self._bound = min(self._base, self.cap)
