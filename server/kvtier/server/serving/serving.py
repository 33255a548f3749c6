"""A gRPC server with all that is around its calls, of a node as of a proxy."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from google.protobuf.descriptor import ServiceDescriptor

from kvtier.server.channel_options import RequestLimits, server_options
from kvtier.server.config.security import ConnectConfig
from kvtier.server.health.readiness import Readiness
from kvtier.server.health.service import HEALTH
from kvtier.server.health.vitals import Vitals
from kvtier.server.metrics.common import Facts, collect_facts
from kvtier.server.metrics.scrape import Collect
from kvtier.server.observing.observing import Observed, Observing
from kvtier.server.peers.credentials import credentials_of, expiries_of
from kvtier.server.security.scopes import Known
from kvtier.server.security.security import Secured, Security
from kvtier.server.services.limits import CallLimits, CallSettings
from kvtier.server.services.reflection import REFLECTION, Reflection
from kvtier.server.services.rpc import Parse, add_service
from kvtier.server.serving.front import Front
from kvtier.server.serving.stopping import Stop
from kvtier.wire.errors import KvtierError

if TYPE_CHECKING:
    from kvtier.server.services.calls import Guard


class ServedLimits(RequestLimits, CallSettings, Protocol):
    """The limits of a server."""


class Served(Secured, Observed, Protocol):
    """The settings of a server that matter here."""

    @property
    def health_listen(self) -> str | None:
        """A second address, for its health; None for none."""
        ...

    @property
    def reflection(self) -> bool:
        """Whether callers may ask which services there are."""
        ...

    @property
    def connect(self) -> ConnectConfig | None:
        """TLS and identity towards others."""
        ...

    @property
    def limits(self) -> ServedLimits:
        """The limits."""
        ...


class Serving:
    """Serves some services: to those who may call, as often as they may, and seen from outside.

    Args:
        config: The settings.
        services: The services.
        limited: Where it is counted how often each limit refused somebody.

    Attributes:
        security: Who may do what.
        credentials: TLS and identity towards others; None for plaintext.
        observing: How it is seen from outside.
        limits: Calls under way.
        vitals: What is said of its health, and where.
        readiness: Whether it is ready for work.
        address: Where it listens, with the real port; known after `serve`.

    Raises:
        ConfigError: When a file of credentials cannot be used, or something is not installed.
    """

    def __init__(
        self, config: Served, services: Sequence[ServiceDescriptor], limited: Counter[str]
    ) -> None:
        reflection = [REFLECTION] if config.reflection else []
        self.security = Security(config)
        self.credentials = credentials_of(config.connect)
        self.observing = Observing(config, [*services, *reflection])
        self.limits = CallLimits(config.limits, limited)
        self.vitals = Vitals(config.health_listen)
        self.readiness = Readiness(self.vitals.board, services)
        self.address = config.listen
        self._config = config
        self._services = services
        self._server = Front(server_options(config.limits))
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        """Say at the second address, if there is one, that it lives and is not ready.

        Raises:
            StartError: When that address cannot be bound.
        """
        self.readiness.begin()
        self.vitals.start(self._server)

    def add(
        self,
        servicers: Sequence[object],
        known: Known,
        before: Callable[[], None] = lambda: None,
        parsers: Mapping[str, Parse] = MappingProxyType({}),
    ) -> None:
        """Add what answers, as `add_service` takes it; each call is observed, allowed, and counted.

        Args:
            servicers: One for each of the services.
            known: Tells what namespaces there are.
            before: Called before each call acts.
            parsers: What makes a request of bytes.
        """
        guards: Sequence[Guard] = (
            *self.observing.guards,
            *self.security.guards(known),
            self.limits,
        )
        answering = dict(zip(self._services, servicers, strict=True))
        if self._config.reflection:
            names = [each.full_name for each in (*self._services, HEALTH, REFLECTION)]
            answering[REFLECTION] = Reflection(names)
        for service, servicer in answering.items():
            add_service(self._server, service, servicer, before, parsers=parsers, guards=guards)

    async def measure(
        self,
        source: Collect,
        *,
        draining: Callable[[], bool],
        followers: Callable[[], int],
        resets: Callable[[], Mapping[int, int]],
    ) -> None:
        """Serve the metrics, if that is asked for.

        Args:
            source: Reads those that only such a server has.
            draining: As in `Facts`, like the next two.
            followers: How many follow its events.
            resets: How many resets they were sent.

        Raises:
            StartError: When the address cannot be bound.
        """
        facts = Facts(
            node_id=self._config.node_id,
            ready=lambda: self.readiness.ready,
            draining=draining,
            followers=followers,
            resets=resets,
            expiries=lambda: {
                **self.security.expiries(),
                **expiries_of(self._config.connect, self.credentials),
            },
            auth_failures=lambda: self.security.failures.counts,
            limited_calls=lambda: self.limits.limited,
        )
        await self.observing.start(partial(collect_facts, facts), source)

    async def serve(self) -> None:
        """Bind the address and serve.

        Raises:
            StartError: When the address cannot be bound.
        """
        self.address = self._server.listen(self._config.listen, self.security.credentials)
        self.vitals.needs([await self._server.start()])
        self.go_on(self.security.watch())

    def go_on(self, *works: Coroutine[Any, Any, None]) -> None:
        """Have works go on until `close`; when one fails the process is taken for dead."""
        tasks = [asyncio.create_task(work) for work in works]
        self.vitals.needs(tasks)
        self._tasks += tasks

    def stopping(self, why: Callable[[], KvtierError]) -> Stop:
        """Return what stops it, as it begins to drain; `why` makes what calls then end with."""
        return Stop(self._server, self.limits, why)

    async def close(self) -> None:
        """End what is around it; it must not be serving."""
        self.vitals.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.observing.close()


def check_files(config: Served) -> None:
    """Check the files that settings name.

    Raises:
        ConfigError: When one cannot be used.
    """
    Security(config)
    credentials_of(config.connect)
