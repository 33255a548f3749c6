"""Real processes that end with the test, however it ends."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.contract.conftest import serve
from tests.contract.support import cpu_tier
from tests.s3.conftest import bucket, endpoint, place, relay

from .processes import NodeProcess, end

__all__ = [
    "StartNode",
    "StartProxy",
    "bucket",
    "endpoint",
    "place",
    "relay",
    "serve",
    "start_node",
    "start_proxy",
]

StartNode = Callable[..., Awaitable[NodeProcess]]
StartProxy = Callable[..., Awaitable[NodeProcess]]

_numbers = count(1)


@pytest.fixture
async def start_node(tmp_path: Path) -> AsyncIterator[StartNode]:
    """Start nodes: call it with settings, or with a node to start that one again.

    With a prefix, that is what the command of the process begins with.
    """
    started: list[NodeProcess] = []

    async def start(
        again: NodeProcess | None = None, prefix: Sequence[str] = (), **settings: Any
    ) -> NodeProcess:
        config = {
            "node_id": f"process-{os.getpid()}-{next(_numbers)}",
            "listen": "127.0.0.1:0",
            "tiers": [cpu_tier(4096)],
            "drain_timeout": 0,
            "events": {"linger": 0, "heartbeat_interval": 0.2},
            **settings,
        }
        # A killed node leaves its file behind; here it goes with the test's folder.
        where = {"shm_dir": str(tmp_path)}
        config["tiers"] = [
            {**where, **tier} if tier["medium"] == "cpu" else tier for tier in config["tiers"]
        ]
        node = await (again.start_again() if again else NodeProcess.start(tmp_path, config, prefix))
        started.append(node)
        return node

    yield start
    for node in started:
        await end(node.process)


@pytest.fixture
async def start_proxy(tmp_path: Path) -> AsyncIterator[StartProxy]:
    """Start proxies: call it with the endpoints, the primary's first, and settings."""
    started: list[NodeProcess] = []

    async def start(primary: str, *secondaries: str, **settings: Any) -> NodeProcess:
        config = {
            "node_id": f"proxy-{os.getpid()}-{next(_numbers)}",
            "primary": primary,
            "secondaries": secondaries,
            "listen": "127.0.0.1:0",
            "events": {"linger": 0, "heartbeat_interval": 0.2},
            **settings,
        }
        started.append(await NodeProcess.start(tmp_path, config, module="kvtier.proxy"))
        return started[-1]

    yield start
    for proxy in started:
        await end(proxy.process)
