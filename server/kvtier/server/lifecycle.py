"""The life of a tier server: start, serve, drain, stop."""

import asyncio
import random
from collections import Counter
from contextlib import ExitStack, closing
from functools import partial

import structlog

from kvtier.server.clock import Clock, SystemClock
from kvtier.server.config import ConfigError, NodeConfig
from kvtier.server.draining import Draining
from kvtier.server.events.pace import Pace
from kvtier.server.health.readiness import recovered
from kvtier.server.lasting.store import LastingStore
from kvtier.server.metrics.node import collect_node
from kvtier.server.node import Node
from kvtier.server.security.names import NodeNames
from kvtier.server.services.event_service import EventService
from kvtier.server.services.limits import COMMON_LIMITS
from kvtier.server.services.node_service import NodeService
from kvtier.server.services.tier_service import TierService
from kvtier.server.services.transfer_service import PARSERS, TransferService
from kvtier.server.serving.haste import Haste
from kvtier.server.serving.serving import Serving
from kvtier.server.stores.open import open_store
from kvtier.server.stores.pinning import pinned
from kvtier.server.tiers.policies import policy_names
from kvtier.server.upkeep import Upkeep
from kvtier.v1 import (
    event_service_pb2,
    node_service_pb2,
    tier_service_pb2,
    transfer_service_pb2,
)

_log = structlog.get_logger(__name__)

_SERVICES = [
    descriptor.services_by_name[name]
    for descriptor, name in (
        (event_service_pb2.DESCRIPTOR, "EventService"),
        (tier_service_pb2.DESCRIPTOR, "TierService"),
        (transfer_service_pb2.DESCRIPTOR, "TransferService"),
        (node_service_pb2.DESCRIPTOR, "NodeService"),
    )
]
_LIMITS = (
    *COMMON_LIMITS,
    "leased_bytes_per_owner",
    "leases",
    "leases_per_caller",
    "leases_per_owner",
    "namespaces",
    "pinned_bytes_per_owner",
    "snapshots",
    "transfers",
)
_EXPIRY_INTERVAL = 0.1
# How long a start waits for the namespaces of what its tiers hold; later ones come as they can.
_NAMESPACES_WAIT = 2.0


class TierServer:
    """A node behind a gRPC server.

    Args:
        config: The configuration.
        clock: The clock of leases and ages.

    Attributes:
        serving: What serves, and what is around it.
        node: The node.
    """

    def __init__(self, config: NodeConfig, clock: Clock | None = None) -> None:
        check_policies(config)
        limited = Counter(dict.fromkeys(_LIMITS, 0))
        self.serving = Serving(config, _SERVICES, limited)
        with ExitStack() as opened:
            stores = [
                opened.enter_context(
                    closing(open_store(tier, config.node_id, config.spare_bytes(tier)))
                )
                for tier in config.tiers
            ]
            opened.enter_context(pinned([s for s in stores if not isinstance(s, LastingStore)]))
            self.node = Node(
                config,
                stores,
                clock or SystemClock(),
                random.SystemRandom(),
                limited=limited,
                credentials=self.serving.credentials,
            )
            self._resources = opened.pop_all()
        self._upkeep = [
            Upkeep(self.node, tier, settings.scrub_rate)
            for tier, settings in zip(self.node.tiers, config.tiers, strict=True)
            if tier.keeping
        ]
        self._haste = Haste()
        self._draining = Draining(
            self.node,
            self.serving.readiness,
            self._upkeep,
            self._haste,
            delay=config.drain_delay,
            longest=config.drain_timeout,
        )
        limits = config.limits
        self._watching = EventService(
            self.node,
            Pace.of(config.events),
            max_followers=limits.followers,
            max_snapshots=limits.snapshots,
        )

    @property
    def address(self) -> str:
        """Where it listens, with the real port; known after `start`."""
        return self.serving.address

    async def start(self) -> None:
        """Bind the address and serve.

        Raises:
            StartError: When the address cannot be bound.
        """
        self.serving.begin()
        names, before = NodeNames(self.node), self.node.expire_leases
        self.serving.add(self._servicers(), names, before=before, parsers=PARSERS)
        await self._begin_metrics()
        await self._begin_upkeep()
        await self.serving.serve()
        self.serving.go_on(self._expire_leases(), self._become_ready())
        # One that has nothing to wait for is ready from the first call on.
        await asyncio.sleep(0)
        _log.info("serving", node_id=self.node.node_id, listen=self.address)

    async def drain_and_stop(self) -> None:
        """Drain, as `Draining` says, and stop."""
        stop = self.serving.stopping(self.node.draining_error)
        await self._draining.drain()
        await stop.end(self.address, hurried=self._haste.hurried)
        await self.close()
        _log.info("stopped", node_id=self.node.node_id)

    def hurry(self) -> None:
        """Do not wait for work that is under way."""
        self._haste.hurry()

    async def close(self) -> None:
        """Leave the peers and give the stores' memory back; the server must not be serving."""
        await self.serving.close()
        await self._draining.close()
        for upkeep in self._upkeep:
            await upkeep.close()
        await self.node.peers.close()
        self.node.threads.shutdown()
        self._resources.close()

    async def _begin_upkeep(self) -> None:
        if not self._upkeep:
            return
        for upkeep in self._upkeep:
            self.serving.vitals.needs(upkeep.start())
        waits = [asyncio.create_task(upkeep.introduced()) for upkeep in self._upkeep]
        _, late = await asyncio.wait(waits, timeout=_NAMESPACES_WAIT)
        for wait in late:
            wait.cancel()

    async def _begin_metrics(self) -> None:
        node, watching = self.node, self._watching
        await self.serving.measure(
            partial(collect_node, node, watching),
            draining=lambda: node.closing,
            followers=lambda: node.followers,
            resets=lambda: watching.resets,
        )

    def _servicers(self) -> tuple[object, ...]:
        return (
            self._watching,
            TierService(self.node),
            TransferService(self.node),
            NodeService(self._draining.drain),
        )

    async def _become_ready(self) -> None:
        await recovered([tier.health for tier in self.node.tiers])
        self.serving.readiness.arrive()

    async def _expire_leases(self) -> None:
        while True:
            await asyncio.sleep(_EXPIRY_INTERVAL)
            try:
                self.node.expire_leases()
            except Exception:  # noqa: BLE001 - leases must go on ending
                _log.exception("leases could not be expired; trying again")


def check_policies(config: NodeConfig) -> None:
    """Check that every tier's replacement policy is one that there is.

    Raises:
        ConfigError: When one is not.
    """
    for tier in config.tiers:
        if tier.policy not in policy_names():
            raise ConfigError(
                f"tiers: tier {tier.name}: policy is {tier.policy!r}; "
                f"there are {', '.join(policy_names())}"
            )
