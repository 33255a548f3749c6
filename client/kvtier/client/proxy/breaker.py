"""Leaving alone for a while what failed."""

import time
from collections.abc import Callable


class Breaker:
    """Open for a pause after a failure; the pause doubles with each further one, up to a limit.

    Args:
        pause: The first pause, in seconds.
        longest: The longest pause, in seconds.
        clock: The time, in seconds.
    """

    def __init__(
        self, *, pause: float, longest: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._first = min(pause, longest)
        self._longest = longest
        self._clock = clock
        self._next = self._first
        self._until = 0.0

    @property
    def is_open(self) -> bool:
        """Whether it is to be left alone."""
        return self.pause_left > 0

    @property
    def pause_left(self) -> float:
        """Seconds for which it is still to be left alone."""
        return max(0.0, self._until - self._clock())

    def failed(self, at_least: float = 0.0) -> None:
        """Begin a pause; who failed may have asked for a least one, in seconds."""
        pause = min(max(self._next, at_least), self._longest)
        self._until = self._clock() + pause
        self._next = min(self._next * 2, self._longest)

    def worked(self) -> None:
        """End the pause, and start over with the shortest one."""
        self._until = 0.0
        self._next = self._first
