"""The life of a tier server: start, serve, drain, stop."""

import asyncio
import random
from collections.abc import Callable
from contextlib import ExitStack, closing

import grpc
import structlog
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as health_aio

from kvtier.server.channel_options import server_options
from kvtier.server.clock import Clock, SystemClock
from kvtier.server.config import ConfigError, NodeConfig
from kvtier.server.events.follower import Pace
from kvtier.server.listening import listen_on
from kvtier.server.node import Node
from kvtier.server.services.event_service import EventService
from kvtier.server.services.rpc import add_service
from kvtier.server.services.tier_service import TierService
from kvtier.server.services.transfer_service import PARSERS, TransferService
from kvtier.server.stores.open import open_store
from kvtier.server.stores.pinning import pinned
from kvtier.server.tiers.policies import policy_names
from kvtier.v1 import event_service_pb2, tier_service_pb2, transfer_service_pb2

_log = structlog.get_logger(__name__)

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
_SERVICES = [
    descriptor.services_by_name[name]
    for descriptor, name in (
        (event_service_pb2.DESCRIPTOR, "EventService"),
        (tier_service_pb2.DESCRIPTOR, "TierService"),
        (transfer_service_pb2.DESCRIPTOR, "TransferService"),
    )
]
_EXPIRY_INTERVAL = 0.1
_DRAIN_POLL = 0.02
_STOP_GRACE = 0.5


class TierServer:
    """A node behind a gRPC server.

    Args:
        config: The configuration.
        clock: The clock of leases and ages.

    Attributes:
        node: The node.
        address: Where it listens, with the real port; known after `start`.
    """

    def __init__(self, config: NodeConfig, clock: Clock | None = None) -> None:
        _check_policies(config)
        self._config = config
        self._hurry = asyncio.Event()
        with ExitStack() as opened:
            stores = [
                opened.enter_context(
                    closing(open_store(tier, config.node_id, config.spare_bytes(tier)))
                )
                for tier in config.tiers
            ]
            opened.enter_context(pinned(stores))
            self.node = Node(config, stores, clock or SystemClock(), random.SystemRandom())
            self._resources = opened.pop_all()
        self._server = grpc.aio.server(options=server_options(config.limits))
        self._health = health_aio.HealthServicer()
        self._ticker: asyncio.Task[None] | None = None
        self.address = config.listen

    async def start(self) -> None:
        """Bind the address and serve.

        Raises:
            StartError: When the address cannot be bound.
        """
        await self._set_health(NOT_SERVING)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        for descriptor, servicer in zip(_SERVICES, self._servicers(), strict=True):
            add_service(self._server, descriptor, servicer, self.node.expire_leases, PARSERS)
        self.address = listen_on(self._server, self._config.listen)
        await self._server.start()
        self._ticker = asyncio.create_task(self._expire_leases())
        await self._set_health(SERVING)
        _log.info("serving", node_id=self.node.node_id, listen=self.address)

    async def drain_and_stop(self) -> None:
        """Refuse new work, let it end where it is under way, send the last events, and stop."""
        await self._set_health(NOT_SERVING)
        self.node.closing = True
        _log.info("draining", leases=len(self.node.leases), transfers=self.node.transfers)
        await self._wait_for_work()
        self.node.tiering.jobs.cancel()
        self.node.draining.set()
        await self._wait_for_followers()
        await self._server.stop(0 if self._hurry.is_set() else _STOP_GRACE)
        await self.close()
        _log.info("stopped", node_id=self.node.node_id)

    def hurry(self) -> None:
        """Do not wait for work that is under way."""
        self._hurry.set()

    async def close(self) -> None:
        """Leave the peers and give the stores' memory back; the server must not be serving."""
        if self._ticker is not None:
            self._ticker.cancel()
        await self.node.peers.close()
        self.node.threads.shutdown()
        self._resources.close()

    def _servicers(self) -> tuple[object, object, object]:
        events, limits = self._config.events, self._config.limits
        pace = Pace(
            heartbeat_interval=events.heartbeat_interval,
            linger=events.linger,
            message_bytes=events.message_bytes,
            stall_timeout=events.stall_timeout,
            snapshot_stall_timeout=events.snapshot_stall_timeout,
        )
        watching = EventService(
            self.node, pace, max_followers=limits.followers, max_snapshots=limits.snapshots
        )
        return watching, TierService(self.node), TransferService(self.node)

    async def _expire_leases(self) -> None:
        while True:
            await asyncio.sleep(_EXPIRY_INTERVAL)
            try:
                self.node.expire_leases()
            except Exception:  # noqa: BLE001 - leases must go on ending
                _log.exception("leases could not be expired; trying again")

    async def _wait_for_work(self) -> None:
        node, leases, limit = self.node, self.node.leases, self._config.drain_timeout
        if not await self._until(lambda: not node.busy, limit):
            _log.warning(
                "leases or transfers did not end in time",
                drain_timeout=limit,
                leases=len(leases) - leases.accounts.pins,
                transfers=node.transfers,
                copies=len(node.tiering.jobs),
            )

    async def _wait_for_followers(self) -> None:
        if not await self._until(lambda: not self.node.followers, _STOP_GRACE):
            _log.warning("followers did not take the last events", followers=self.node.followers)

    async def _until(self, done: Callable[[], bool], longest: float) -> bool:
        """Wait until something is done, a time has passed, or a second signal came."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + longest
        while not done():
            if self._hurry.is_set() or loop.time() >= deadline:
                return False
            await asyncio.sleep(_DRAIN_POLL)
        return True

    async def _set_health(self, status: int) -> None:
        for name in ("", *(descriptor.full_name for descriptor in _SERVICES)):
            await self._health.set(name, status)


def _check_policies(config: NodeConfig) -> None:
    for tier in config.tiers:
        if tier.policy not in policy_names():
            raise ConfigError(
                f"tiers: tier {tier.name}: policy is {tier.policy!r}; "
                f"there are {', '.join(policy_names())}"
            )
