"""Nodes that pull from a peer which a test tells what to do."""

import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import grpc
import grpc.aio
import pytest

from .conftest import Serve
from .copying import Copied, copy_blocks
from .fake_peer import Act, FakePeer, Send, faking, message, stand_still
from .support import Serving, cpu_tier, payloads, run

__all__ = ["closed", "fake", "node"]

TIMEOUT, PAUSE = 0.4, 1.5
SETTINGS: dict[str, Any] = {"peer_timeout": TIMEOUT, "peer_pause": PAUSE}
# The address of a channel, and the channel.
Dialled = tuple[str, Any]


@pytest.fixture
async def fake() -> AsyncIterator[FakePeer]:
    """A peer that stands still, until a test gives it something to do."""
    async with faking(stand_still) as peer:
        yield peer


@pytest.fixture
async def node(serve: Serve, fake: FakePeer) -> Serving:
    """A node that may pull from it, with room for steps of eight blocks."""
    return await serve(cpu_tier(32), peers=[fake.endpoint], **SETTINGS)


@pytest.fixture
def closed() -> Iterator[str]:
    """An address at which nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


async def pull(node: Serving, endpoint: str, *blocks: object, **more: Any) -> Copied:
    return await copy_blocks(node, run(*blocks), peer=(endpoint, "cpu0"), to="cpu0", **more)


def all_of(*blocks: object) -> Act:
    """Send these blocks, in one message."""

    async def act(_hashes: list[bytes], send: Send) -> None:
        await send(message(0, *payloads(*blocks)))

    return act


@contextmanager
def dialling() -> Iterator[list[Dialled]]:
    """Note the channels that the node opens to peers: without one there is no connection."""
    dialled: list[Dialled] = []
    opened = grpc.aio.insecure_channel

    def dial(target: str, **settings: Any) -> Any:
        dialled.append((target, opened(target, **settings)))
        return dialled[-1][1]

    with patch("kvtier.server.peers.peer.grpc.aio.insecure_channel", dial):
        yield dialled
