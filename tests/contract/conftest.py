"""Nodes that serve over real gRPC, each with a clock that the test turns."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack

import pytest

from kvtier.client import NodeClient
from kvtier.server.clock import ManualClock
from kvtier.server.config import NodeConfig
from kvtier.server.lifecycle import TierServer

from .support import Serving, cpu_tier, namespace

Serve = Callable[..., Awaitable[Serving]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Start nodes: call it with tiers and settings; all of them end with the test."""
    async with AsyncExitStack() as stack:

        async def start(*tiers: Mapping[str, object], **settings: object) -> Serving:
            config = NodeConfig.model_validate(
                {
                    "node_id": f"node-{id(tiers)}",
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
            fingerprint = await client.register_namespace(namespace())
            return Serving(server, client, clock, fingerprint)

        yield start
