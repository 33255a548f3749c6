"""Time as the server sees it, so that tests can turn the clock themselves."""

import time
from typing import Protocol


class Clock(Protocol):
    """Two readings of time, in seconds."""

    def monotonic(self) -> float:
        """Return a reading that never goes back, for deadlines."""
        ...

    def time(self) -> float:
        """Return the time of day as seconds since 1970, for people."""
        ...


class SystemClock:
    """The machine's clock."""

    def monotonic(self) -> float:
        """Return the machine's monotonic clock."""
        return time.monotonic()

    def time(self) -> float:
        """Return the machine's time of day."""
        return time.time()


class ManualClock:
    """A clock that stands still until it is advanced."""

    def __init__(self, now: float = 1_000.0) -> None:
        self._now = now

    def advance(self, seconds: float) -> None:
        """Move both readings forward."""
        self._now += seconds

    def monotonic(self) -> float:
        """Return the current reading."""
        return self._now

    def time(self) -> float:
        """Return the current reading."""
        return self._now
