"""Nodes that serve over real gRPC, each with a clock that the test turns."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from kvtier.client import Credentials, NodeClient
from kvtier.server.clock import ManualClock
from kvtier.server.config import NodeConfig
from kvtier.server.lifecycle import TierServer
from kvtier.server.tiering import copier
from kvtier.wire.namespaces import fingerprint as fingerprint_of
from tests.s3.conftest import bucket, credentials, endpoint, place, relay
from tests.waiting import until

from .copy_gate import CopyGate
from .follower import Follower
from .grounds import Directory, Ground, Prefix
from .support import ANY_TIER, TIER_KINDS, MakeTier, Serving, cpu_tier, fs_tier, namespace
from .ways import STORE_WAYS, Store

__all__ = ["bucket", "credentials", "endpoint", "place", "relay"]

Serve = Callable[..., Awaitable[Serving]]
Connect = Callable[..., Awaitable[NodeClient]]
Follow = Callable[..., Awaitable[Follower]]

_numbers = count(1)


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Start nodes: call it with tiers and settings; all of them end with the test.

    What its tiers hold is known when a node is given, unless the test wants to see it recover.
    """
    async with AsyncExitStack() as stack:

        async def start(
            *tiers: Mapping[str, object],
            register: bool = True,
            recover: bool = True,
            credentials: Credentials | None = None,
            **settings: object,
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
            client = NodeClient(server.address, credentials=credentials)
            await stack.enter_async_context(client)
            description = namespace()
            if register:
                await client.register_namespace(description)
            if recover:
                await until(lambda: not any(t.health.recovering for t in server.node.tiers))
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
    """Each way to store: under a lease in steps, by an offer in one call, and in place."""
    return STORE_WAYS[request.param]


@pytest.fixture(params=[*TIER_KINDS, "fs"])
def any_tier(request: pytest.FixtureRequest, tmp_path: Path) -> MakeTier:
    """Each kind of tier: call it with a number of blocks."""
    if request.param == "fs":
        return partial(fs_tier, directory=tmp_path, name=ANY_TIER)
    return TIER_KINDS[request.param]


@pytest.fixture(params=[*TIER_KINDS])
def memory_tier(request: pytest.FixtureRequest) -> MakeTier:
    """Each kind of tier in memory: call it with a number of blocks."""
    return TIER_KINDS[request.param]


@pytest.fixture(params=["fs", "obj"])
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Ground:
    """Each kind of place where a tier that lasts keeps its blocks."""
    if request.param == "fs":
        return Directory(tmp_path / "blocks-of-a-node")
    return Prefix(request.getfixturevalue("place"))
