"""Printing measurements."""

from collections.abc import Iterable, Sequence
from statistics import median


def show(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table with its title; every column is as wide as it needs."""
    lines = [columns, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    print(f"\n{title}\n")
    for line in lines:
        print("  ".join(map(str.rjust, line, widths)))


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Return the median of the ratios of measurements taken in pairs."""
    if not theirs:
        return "-"
    return f"{median(a / b for a, b in zip(ours, theirs, strict=True)):.2f}"


def middle(values: Sequence[float], form: str = ",.0f") -> str:
    """Return the median, or a dash where nothing was measured."""
    return format(median(values), form) if values else "-"


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the value below which so many percent lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]
