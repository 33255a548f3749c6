"""A metric: its name, its labels, and what it means."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Literal, TypeAlias

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

Labels: TypeAlias = Sequence[str]

# Values that were read on the loop; called elsewhere, it makes of them what the library writes.
Read: TypeAlias = Callable[[], Metric]


@dataclass(frozen=True, slots=True)
class Family:
    """The values of one name, each with values for all labels.

    Attributes:
        name: The name, which tells the unit; that of a counter ends with `_total`.
        meaning: What the values are.
        labels: The names of the labels.
    """

    name: str
    meaning: str
    labels: tuple[str, ...] = ()

    @property
    def kind(self) -> Literal["counter", "gauge"]:
        """Whether the values only grow."""
        return "counter" if self.name.endswith("_total") else "gauge"

    def of(self, rows: Iterable[tuple[Labels, float]]) -> Read:
        """Return the family with these values, each given with those of its labels."""
        return partial(self._metric, list(rows))

    def by(self, values: Mapping[str, float]) -> Read:
        """Return the family of one label with a value for each of the label's."""
        return self.of(((label,), value) for label, value in values.items())

    def alone(self, value: float) -> Read:
        """Return the family without labels with its value."""
        return self.of([((), value)])

    def _metric(self, rows: Iterable[tuple[Labels, float]]) -> Metric:
        make = CounterMetricFamily if self.kind == "counter" else GaugeMetricFamily
        family = make(self.name, self.meaning, labels=self.labels)
        for labels, value in rows:
            family.add_metric(labels, value)
        return family


class Distribution:
    """How many observations were at most so large. Adding one takes well under a microsecond.

    Args:
        bounds: The sizes, ascending.
    """

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Add an observation."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def read(self) -> tuple[Sequence[int], float]:
        """Return how many observations there were up to each size, and their sum."""
        return list(accumulate(self._counts)), self._sum


@dataclass(frozen=True, slots=True)
class Histogram:
    """The distributions of one name, each with values for all labels.

    Attributes:
        name: The name, which tells the unit.
        meaning: What is observed.
        bounds: The sizes up to which observations are counted.
        labels: The names of the labels.
    """

    name: str
    meaning: str
    bounds: tuple[float, ...]
    labels: tuple[str, ...] = ()

    kind: Literal["histogram"] = "histogram"

    def begin(self) -> Distribution:
        """Return a distribution without observations."""
        return Distribution(self.bounds)

    def of(self, rows: Iterable[tuple[Labels, Distribution]]) -> Read:
        """Return the family with these distributions, each given with the values of its labels."""
        return partial(self._metric, [(labels, each.read()) for labels, each in rows])

    def _metric(self, rows: Iterable[tuple[Labels, tuple[Sequence[int], float]]]) -> Metric:
        family = HistogramMetricFamily(self.name, self.meaning, labels=self.labels)
        names = [*map(str, self.bounds), "+Inf"]
        for labels, (counts, total) in rows:
            family.add_metric(labels, list(zip(names, counts, strict=True)), total)
        return family


def word(name: str, prefix: str) -> str:
    """Return an enum's value as a label's, such as `evicted` for REMOVAL_REASON_EVICTED."""
    return name.removeprefix(prefix).lower()
