"""Comparing what two things cost, on a machine that others use too."""

import time
from collections.abc import Callable
from statistics import median


def side_by_side(one: Callable[[], object], other: Callable[[], object]) -> tuple[float, float]:
    """Return the median seconds of two calls, made in turn so that both meet the same load."""
    took: tuple[list[float], list[float]] = ([], [])
    for _ in range(300):
        for act, times in zip((one, other), took, strict=True):
            start = time.perf_counter()
            act()
            times.append(time.perf_counter() - start)
    return median(took[0]), median(took[1])
