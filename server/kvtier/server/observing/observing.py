"""How a server is seen from outside: its metrics, the log lines of its calls, and its traces."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

import structlog
from google.protobuf.descriptor import ServiceDescriptor

from kvtier.server.metrics.calls import CallMetrics
from kvtier.server.metrics.endpoint import MetricsEndpoint
from kvtier.server.metrics.lag import LoopLag
from kvtier.server.metrics.scrape import Collect, Scrape
from kvtier.server.observing.call_log import CallLog
from kvtier.server.observing.tracing import open_tracing

if TYPE_CHECKING:
    from kvtier.server.services.calls import Guard

_log = structlog.get_logger(__name__)


class Observed(Protocol):
    """The settings of a server that this is about."""

    @property
    def node_id(self) -> str:
        """The id of the node or proxy."""
        ...

    @property
    def metrics_listen(self) -> str | None:
        """Address of the metrics; None for none."""
        ...

    @property
    def tracing(self) -> bool:
        """Whether calls are traced."""
        ...


class Observing:
    """What is around the calls of a server, and what is told of it.

    Args:
        config: The settings.
        services: What is served.

    Attributes:
        guards: What is around every call, before anything else.
        metrics_address: Where the metrics are, with the real port; known after `start`.

    Raises:
        ConfigError: When calls are to be traced, and OpenTelemetry is not installed.
    """

    def __init__(self, config: Observed, services: Iterable[ServiceDescriptor]) -> None:
        self.metrics_address = config.metrics_listen
        self._calls = CallMetrics(services)
        self._log = CallLog()
        self._lag = LoopLag()
        self._scrape: Scrape | None = None
        self._endpoint: MetricsEndpoint | None = None
        self._sampling: asyncio.Task[None] | None = None
        self._traces = open_tracing(config.node_id) if config.tracing else None
        measuring = (self._calls,) if config.metrics_listen else ()
        tracing = (self._traces,) if self._traces else ()
        self.guards: Sequence[Guard] = (*measuring, self._log, *tracing)

    async def start(self, *sources: Collect) -> None:
        """Serve the metrics of some sources, if that is asked for, beside those of calls.

        Raises:
            StartError: When the address cannot be bound.
        """
        if self.metrics_address is None:
            return
        self._scrape = Scrape([*sources, self._calls.collect, self._lag.collect])
        self._endpoint = MetricsEndpoint(self._scrape)
        self.metrics_address = await self._endpoint.start(self.metrics_address)
        self._sampling = asyncio.create_task(self._lag.sample())
        _log.info("metrics", listen=self.metrics_address)

    async def close(self) -> None:
        """Tell what is left to tell, and end."""
        self._log.close()
        if self._sampling is not None:
            self._sampling.cancel()
        if self._endpoint is not None:
            await self._endpoint.close()
        if self._scrape is not None:
            self._scrape.close()
        if self._traces is not None:
            await self._traces.close()
