"""The life of a proxy process: start, serve, drain, stop."""

from collections import Counter
from contextlib import AsyncExitStack
from functools import partial

import structlog

from kvtier.client import NodeClient, TieringProxy, Watch
from kvtier.proxy.config import ProxyConfig
from kvtier.proxy.identity import connect_of, identity_of, membership_of
from kvtier.proxy.metrics import collect_proxy
from kvtier.proxy.names import ProxyNames
from kvtier.proxy.reading import ReadService
from kvtier.proxy.refusing import RefusedTransfers
from kvtier.proxy.relays import Relays
from kvtier.proxy.ring import Ring
from kvtier.proxy.upstream import Upstream
from kvtier.proxy.watching import EventService, Rules, sent_off
from kvtier.server.events.pace import Pace
from kvtier.server.services.limits import COMMON_LIMITS
from kvtier.server.serving.haste import Haste
from kvtier.server.serving.serving import Serving
from kvtier.v1 import event_service_pb2, tier_service_pb2, transfer_service_pb2
from kvtier.v1.event_service_pb2 import EventView

_log = structlog.get_logger(__name__)

_SERVICES = [
    descriptor.services_by_name[name]
    for descriptor, name in (
        (event_service_pb2.DESCRIPTOR, "EventService"),
        (tier_service_pb2.DESCRIPTOR, "TierService"),
        (transfer_service_pb2.DESCRIPTOR, "TransferService"),
    )
]
_FOLLOWERS_GRACE = 0.5
# How long a start waits for word from every address, before it is ready with those that it has.
_READY_SECONDS = 5.0


class ProxyServer:
    """A `TieringProxy` behind a gRPC server.

    Args:
        config: The configuration.

    Raises:
        ConfigError: When a file of credentials cannot be used.

    Attributes:
        serving: What serves, and what is around it.
        proxy: What follows the nodes; known after `start`.
        relays: What is known of each node; known after `start`.
    """

    def __init__(self, config: ProxyConfig) -> None:
        self.serving = Serving(config, _SERVICES, Counter(dict.fromkeys(COMMON_LIMITS, 0)))
        self.proxy: TieringProxy
        self.relays: Relays
        self._config = config
        self._haste = Haste()
        self._opened = AsyncExitStack()
        self._watching: EventService

    @property
    def address(self) -> str:
        """Where it listens, with the real port; known after `start`."""
        return self.serving.address

    @property
    def followers(self) -> int:
        """Followers of events now."""
        return self._watching.followers

    async def start(self) -> None:
        """Follow the nodes, bind the address and serve.

        Raises:
            StartError: When the address cannot be bound.
        """
        self.serving.begin()
        self.proxy = await self._follow()
        self._watching = self._event_service()
        self.serving.add(self._servicers(), ProxyNames(self.proxy.index))
        await self._begin_metrics()
        await self.serving.serve()
        self.serving.go_on(self.relays.follow(self.proxy.watch()), self._become_ready())
        _log.info("serving", node_id=self._config.node_id, listen=self.address)

    async def drain_and_stop(self) -> None:
        """Be not ready, then send the followers off, and stop."""
        stop = self.serving.stopping(sent_off)
        self.serving.readiness.leave()
        await self._haste.pause(self._config.drain_delay)
        _log.info("draining", followers=self.followers)
        self._watching.drain()
        if not await self._haste.until(lambda: not self.followers, _FOLLOWERS_GRACE):
            _log.warning("followers did not leave", followers=self.followers)
        await stop.end(self.address, hurried=self._haste.hurried)
        await self.close()
        _log.info("stopped", node_id=self._config.node_id)

    def hurry(self) -> None:
        """Do not wait for followers."""
        self._haste.hurry()

    async def close(self) -> None:
        """Leave the nodes; the server must not be serving."""
        await self.serving.close()
        await self._opened.aclose()

    async def _follow(self) -> TieringProxy:
        config, connect = self._config, partial(NodeClient, credentials=self.serving.credentials)
        primary, *secondaries = [
            await self._opened.enter_async_context(connect(endpoint))
            for endpoint in (config.primary, *config.secondaries)
        ]
        return await self._opened.enter_async_context(
            TieringProxy(
                primary,
                secondaries,
                membership=membership_of(config),
                connect=connect_of(config, self.serving.credentials),
                watch=partial(Watch, view=EventView.EVENT_VIEW_FULL),
                quota=config.quota,
            )
        )

    def _event_service(self) -> EventService:
        config, events, limits = self._config, self._config.events, self._config.limits
        make_ring = partial(
            Ring,
            max_batches=events.max_batches,
            max_bytes=events.max_bytes,
            message_bytes=events.message_bytes,
        )
        self.relays = Relays(self.proxy.members, make_ring)
        rules = Rules(limits.followers, config.quota, config.require_primary)
        upstream = Upstream(self.relays, self.proxy.members, limit=limits.catch_ups)
        return EventService(self.relays, upstream, Pace.of(events), rules)

    def _servicers(self) -> tuple[object, ...]:
        proxy, identity = self.proxy, identity_of(self._config)
        return (
            self._watching,
            ReadService(proxy.members, proxy.index, identity, lambda: self.followers),
            RefusedTransfers(proxy.members),
        )

    async def _begin_metrics(self) -> None:
        await self.serving.measure(
            partial(collect_proxy, self.proxy.members, self.relays),
            draining=lambda: self._watching.draining,
            followers=lambda: self.followers,
            resets=lambda: self.relays.told.resets,
        )

    async def _become_ready(self) -> None:
        await self._haste.until(lambda: self.relays.complete, _READY_SECONDS)
        self.serving.readiness.arrive()
