"""Real processes that end with the test, however it ends."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.contract.conftest import serve
from tests.contract.support import cpu_tier

from .processes import NodeProcess, end

__all__ = ["StartNode", "serve", "start_node"]

StartNode = Callable[..., Awaitable[NodeProcess]]

_numbers = count(1)


@pytest.fixture
async def start_node(tmp_path: Path) -> AsyncIterator[StartNode]:
    """Start nodes: call it with settings, or with a node to start that one again."""
    started: list[NodeProcess] = []

    async def start(again: NodeProcess | None = None, **settings: Any) -> NodeProcess:
        config = {
            "node_id": f"node-{os.getpid()}-{next(_numbers)}",
            "listen": "127.0.0.1:0",
            "tiers": [cpu_tier(4096)],
            "drain_timeout": 0,
            "events": {"linger": 0, "heartbeat_interval": 0.2},
            **settings,
        }
        # A killed node leaves its file behind; here it goes with the test's folder.
        config["tiers"] = [{**tier, "shm_dir": str(tmp_path)} for tier in config["tiers"]]
        node = await (again.start_again() if again else NodeProcess.start(tmp_path, config))
        started.append(node)
        return node

    yield start
    for node in started:
        await end(node.process)
