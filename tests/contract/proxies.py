"""Proxies that serve over real gRPC in this process, and what their followers see."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from typing import Any

import grpc.aio
import pytest

from kvtier.client import NodeClient
from kvtier.proxy.config import ProxyConfig
from kvtier.proxy.lifecycle import ProxyServer
from kvtier.v1.event_service_pb2 import (
    NodePosition,
    SourceState,
    WatchEventsRequest,
    WatchEventsResponse,
)
from kvtier.v1.event_service_pb2_grpc import EventServiceStub
from tests.waiting import until

from .folding import Fold
from .following import PATIENCE
from .wire import refusal

ServeProxy = Callable[..., Awaitable[ProxyServer]]

_numbers = count(1)


@pytest.fixture
async def serve_proxy() -> AsyncIterator[ServeProxy]:
    """Start proxies: call it with the endpoints, the primary's first; all end with the test.

    Every node was heard of when a proxy is given, unless the test does not want to wait.
    """
    async with AsyncExitStack() as stack:

        async def start(primary: str, *secondaries: str, wait: bool = True, **settings: Any) -> Any:
            config = ProxyConfig.model_validate(
                {
                    "node_id": f"proxy-{os.getpid()}-{next(_numbers)}",
                    "primary": primary,
                    "secondaries": secondaries,
                    "listen": "127.0.0.1:0",
                    "events": {"linger": 0, "heartbeat_interval": 0.1},
                    **settings,
                }
            )
            server = ProxyServer(config)
            stack.push_async_callback(server.drain_and_stop)
            await server.start()
            if wait:
                await until(lambda: in_sync(server))
            return server

        yield start


def in_sync(server: ProxyServer) -> bool:
    """Tell whether a proxy could let followers go on from every node's ring."""
    carried = server.relays.carried()
    rings = [each.relay.ring for each in carried]
    ready = all(ring is not None and ring.counted_from is not None for ring in rings)
    return server.relays.complete and ready


class ProxyFollower:
    """One follower of a proxy, by one call with gRPC's own defaults.

    Attributes:
        messages: The messages, as they came.
        folds: The view of each node.
        error: What the stream ended with.
    """

    def __init__(self, call: Any, folds: dict[str, Fold], *, filtered: bool) -> None:
        self.messages: list[WatchEventsResponse] = []
        self.folds = folds
        self.error: Exception | None = None
        self._call = call
        self._filtered = filtered
        self._moved = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    @property
    def listed(self) -> list[str]:
        """The nodes that the proxy named last."""
        named = [list(m.sources.node_ids) for m in self.messages if m.HasField("sources")]
        return named[-1] if named else []

    def of(self, node_id: str) -> list[WatchEventsResponse]:
        """Return the messages of one node."""
        return [message for message in self.messages if message.node_id == node_id]

    def state(self, node_id: str) -> str:
        """Return the state of a node that was told last, or that its stream implies."""
        states = [""]
        for message in self.of(node_id):
            if message.state.source:
                name = SourceState.Name(message.state.source)
                states.append(name.removeprefix("SOURCE_STATE_"))
            elif message.HasField("synced"):
                states.append("LIVE")
        return states[-1]

    async def until(self, condition: Callable[[], object]) -> None:
        """Read on until something holds.

        Raises:
            TimeoutError: When it does not come to hold.
        """
        async with asyncio.timeout(PATIENCE):
            while not condition():
                if self._reading.done():
                    self._reading.result()
                    raise self.error or EOFError("the stream ended")
                self._moved.clear()
                await self._moved.wait()

    async def settle(self, *clients: NodeClient) -> None:
        """Read on until everything that happened at nodes so far is told."""
        for client in clients:
            node = await client.get_node()
            await self.until(lambda: self._has(node.node_id, node.head.epoch, node.head.sequence))  # noqa: B023 - awaited at once

    async def leave(self) -> None:
        """Cancel the call; raise what a message did wrong."""
        self._call.cancel()
        self._reading.cancel()
        for failure in await asyncio.gather(self._reading, return_exceptions=True):
            if isinstance(failure, Exception):
                raise failure

    def _has(self, node_id: str, epoch: int, sequence: int) -> bool:
        fold = self.folds.get(node_id)
        here = fold is not None and fold.synced and fold.epoch == epoch
        return here and fold is not None and fold.through >= sequence

    async def _read(self) -> None:
        try:
            async for message in self._call:
                self.messages.append(message)
                if not message.HasField("sources"):
                    self._fold(message)
                self._moved.set()
        except grpc.aio.AioRpcError as error:
            self.error = refusal(error)
        finally:
            self._moved.set()

    def _fold(self, message: WatchEventsResponse) -> None:
        assert message.node_id in self.listed, "a node is named before it says anything"
        fold = self.folds.setdefault(message.node_id, Fold(filtered=self._filtered))
        fold.apply(message)


def positions(folds: dict[str, Fold]) -> list[NodePosition]:
    """Return where followers who know so much go on."""
    return [each for fold in folds.values() for each in fold.positions()]


@asynccontextmanager
async def following_proxy(
    endpoint: str, *, folds: dict[str, Fold] | None = None, **request: Any
) -> AsyncIterator[ProxyFollower]:
    """Follow a proxy.

    Args:
        endpoint: The proxy's address.
        folds: The views to go on from; by default none.
        request: Further fields of the request.
    """
    filtered = any(request.get(name) for name in ("tiers", "media", "namespaces"))
    known = folds if folds is not None else {}
    for fold in known.values():
        fold.reopen()
    asked = WatchEventsRequest(**{"positions": positions(known), **request})
    async with grpc.aio.insecure_channel(endpoint) as channel:
        stub: Any = EventServiceStub(channel)
        follower = ProxyFollower(stub.WatchEvents(asked), known, filtered=filtered)
        try:
            yield follower
        finally:
            await follower.leave()
