"""How long calls took."""

from array import array
from math import ceil


class Latencies:
    """Times of calls, 8 bytes each."""

    def __init__(self) -> None:
        self._seconds = array("d")

    def __len__(self) -> int:
        return len(self._seconds)

    def add(self, seconds: float) -> None:
        """Take in one call's time."""
        self._seconds.append(seconds)

    def record(self) -> dict[str, float | None]:
        """Return the least, the median, the 99th percentile and the longest, in milliseconds.

        They are None when there was no call.
        """
        ordered = sorted(self._seconds)
        return {
            "min_ms": _at(ordered, 0),
            "p50_ms": _at(ordered, 0.5),
            "p99_ms": _at(ordered, 0.99),
            "max_ms": _at(ordered, 1),
        }


def milliseconds(value: float | None) -> str:
    """Return milliseconds with three significant digits; empty for None."""
    if value is None:
        return ""
    return f"{value:.0f}" if value >= 100 else f"{value:#.3g}"


def _at(ordered: list[float], part: float) -> float | None:
    if not ordered:
        return None
    return round(ordered[max(ceil(part * len(ordered)) - 1, 0)] * 1000, 6)
