"""Metrics, as Prometheus would get them."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.request import Request, urlopen

from prometheus_client.parser import text_string_to_metric_families

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

Series = tuple[str, frozenset[tuple[str, str]]]


class Metrics:
    """What one scrape said.

    Attributes:
        series: The value of each series, by its name and labels.
        families: What was said of each name.
    """

    def __init__(self, text: str) -> None:
        self.families: dict[str, Metric] = {
            family.name: family for family in text_string_to_metric_families(text)
        }
        self.series: Mapping[Series, float] = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self.families.values()
            for sample in family.samples
        }

    def __getitem__(self, name: str) -> float:
        """Return the value of a name without labels."""
        return self.series[name, frozenset()]

    def value(self, name: str, **labels: str) -> float:
        """Return the value of a name with exactly these labels."""
        return self.series[name, frozenset(labels.items())]

    def of(self, name: str, **labels: str) -> dict[str, float]:
        """Return the values of a name with these labels, by that of the one label more."""
        return {
            value: found
            for (each, having), found in self.series.items()
            if each == name and having >= labels.items()
            for _, value in having - labels.items()
        }

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of a name over all series with these labels."""
        return sum(self._values(name, labels))

    def _values(self, name: str, labels: Mapping[str, str]) -> Iterator[float]:
        for (each, having), value in self.series.items():
            if each == name and having >= labels.items():
                yield value


async def scrape(address: str | None) -> Metrics:
    """Ask an address for its metrics."""
    return Metrics((await fetch(address)).decode())


async def fetch(address: str | None, accept: str = "") -> bytes:
    """Ask an address for its metrics, and return the text as it comes."""
    request = Request(f"http://{address}/metrics", headers={"Accept": accept})

    def read() -> bytes:
        with urlopen(request, timeout=10) as response:
            text: bytes = response.read()
            return text

    return await asyncio.to_thread(read)


async def metrics_come_to(address: str | None, what: Callable[[Metrics], object]) -> Metrics:
    """Scrape until something is so; fail when it is not in ten seconds."""
    async with asyncio.timeout(10):
        while not what(found := await scrape(address)):  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.02)
        return found
