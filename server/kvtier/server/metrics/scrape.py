"""From what there is to tell to the text that Prometheus reads."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from kvtier.server.metrics.families import Read

Collect = Callable[[], Iterable[Read]]


class _Known(Collector):
    """Metrics that were read already."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        """Return them."""
        return self._metrics


class Scrape:
    """Reads metrics on the event loop, and writes them down beside it.

    The loop's tables are read on the loop, in one step; turning some thousand values into text
    takes ten times as long, and goes on in a thread of its own.

    Args:
        sources: What reads some metrics each.
    """

    def __init__(self, sources: Iterable[Collect]) -> None:
        self._sources = list(sources)
        self._writing = ThreadPoolExecutor(1, thread_name_prefix="kvtier-metrics")
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)
        GCCollector(registry=self._process)

    async def __call__(self, accept: str) -> tuple[bytes, str]:
        """Return the text, and the type of its content, for an Accept header."""
        known = list(self._read())
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._writing, self._write, known, accept)

    def close(self) -> None:
        """Write nothing more."""
        self._writing.shutdown(wait=False, cancel_futures=True)

    def _read(self) -> Iterator[Read]:
        return chain.from_iterable(source() for source in self._sources)

    def _write(self, known: Iterable[Read], accept: str) -> tuple[bytes, str]:
        try:
            encode, kind = choose_encoder(accept)
        except (TypeError, ValueError):  # of a version that is no number
            encode, kind = choose_encoder("")
        # A registry of its own for each scrape, that calls nothing of the loop's.
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Known([*self._process.collect(), *(read() for read in known)]))
        return encode(registry), kind
