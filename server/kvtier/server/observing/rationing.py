"""Few log lines of things that may happen often."""

import asyncio
from collections.abc import Callable


class Ration:
    """Admits so many lines of a kind in a time; of the rest the number is told when it is over.

    Args:
        most: Lines of one kind in that time.
        seconds: The time, from the first line of a kind on.
        tell: Told the kind and how many lines were left out.
    """

    def __init__(self, most: int, seconds: float, tell: Callable[[str, int], None]) -> None:
        self._most = most
        self._seconds = seconds
        self._tell = tell
        self._seen: dict[str, int] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def admits(self, kind: str) -> bool:
        """Count a line, and tell whether it may be written; there must be few kinds."""
        seen = self._seen.get(kind, 0)
        if not seen:
            later = asyncio.get_running_loop().call_later
            self._timers[kind] = later(self._seconds, self._end, kind)
        self._seen[kind] = seen + 1
        return seen < self._most

    def close(self) -> None:
        """Tell what was left out so far, and begin anew."""
        for kind in list(self._seen):
            self._end(kind)

    def _end(self, kind: str) -> None:
        self._timers.pop(kind).cancel()
        left_out = self._seen.pop(kind) - self._most
        if left_out > 0:
            self._tell(kind, left_out)
