"""Nodes that serve over real gRPC, each with a clock that the test turns."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from itertools import count

import pytest

from kvtier.client import NodeClient
from kvtier.server.clock import ManualClock
from kvtier.server.config import NodeConfig
from kvtier.server.lifecycle import TierServer
from kvtier.server.tiering import copier
from kvtier.wire.namespaces import fingerprint as fingerprint_of

from .copy_gate import CopyGate
from .follower import Follower
from .support import TIER_KINDS, MakeTier, Serving, cpu_tier, namespace
from .ways import STORE_WAYS, Store

Serve = Callable[..., Awaitable[Serving]]
Connect = Callable[..., Awaitable[NodeClient]]
Follow = Callable[..., Awaitable[Follower]]

_numbers = count(1)


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Start nodes: call it with tiers and settings; all of them end with the test."""
    async with AsyncExitStack() as stack:

        async def start(
            *tiers: Mapping[str, object], register: bool = True, **settings: object
        ) -> Serving:
            config = NodeConfig.model_validate(
                {
                    "node_id": f"node-{os.getpid()}-{next(_numbers)}",
                    "listen": "127.0.0.1:0",
                    "tiers": tiers or [cpu_tier(4)],
                    "drain_timeout": 0,
                    "events": {"linger": 0, "heartbeat_interval": 0.1},
                    **settings,
                }
            )
            clock = ManualClock()
            server = TierServer(config, clock)
            stack.push_async_callback(server.drain_and_stop)
            await server.start()
            client = await stack.enter_async_context(NodeClient(server.address))
            description = namespace()
            if register:
                await client.register_namespace(description)
            fingerprint = fingerprint_of(description)
            return Serving(server, client, clock, fingerprint)

        yield start


@pytest.fixture
async def connect(serve: Serve) -> AsyncIterator[Connect]:
    """Give a node further clients: call it with the node and the client's settings."""
    async with AsyncExitStack() as stack:

        async def start(node: Serving, **settings: object) -> NodeClient:
            client = NodeClient(node.endpoint, **settings)  # type: ignore[arg-type]
            await stack.enter_async_context(client)
            await client.register_namespace(namespace())
            return client

        yield start


@pytest.fixture
async def follow(serve: Serve) -> AsyncIterator[Follow]:
    """Follow nodes: call it with a node; the follower is in sync when it is given."""
    async with AsyncExitStack() as stack:

        async def start(node: Serving) -> Follower:
            return await stack.enter_async_context(Follower(node.client))

        yield start


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[CopyGate]:
    """Put a gate before all copies between tiers, which then run in threads."""
    gate = CopyGate()
    monkeypatch.setattr(copier, "copy_slots", gate.copy)
    monkeypatch.setattr(copier, "_INLINE_BYTES", -1)
    yield gate
    gate.let_through()


@pytest.fixture(params=[*STORE_WAYS])
def store(request: pytest.FixtureRequest) -> Store:
    """Each way to store: under a lease in steps, and by an offer in one call."""
    return STORE_WAYS[request.param]


@pytest.fixture(params=[*TIER_KINDS])
def any_tier(request: pytest.FixtureRequest) -> MakeTier:
    """Each kind of tier: call it with a number of blocks."""
    return TIER_KINDS[request.param]
