"""A server's start and its end: what it waits for, and what it leaves behind."""

import asyncio
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from kvtier.client import NodeClient
from kvtier.server import lifecycle
from kvtier.server.clock import ManualClock
from kvtier.server.config import NodeConfig
from kvtier.server.leases import End
from kvtier.server.lifecycle import TierServer
from kvtier.server.main import serve
from kvtier.server.operations.pinning import pin_blocks
from kvtier.server.operations.storing import prepare_store
from kvtier.server.serving.starting import StartError
from kvtier.server.stores.base import StoreError
from kvtier.v1.pinning_pb2 import PinBlocksRequest
from kvtier.v1.tier_service_pb2 import (
    PrepareStoreRequest,
)
from kvtier.wire.errors import KvtierError, Reason
from tests.contract.support import blocks_of, cpu_tier, namespace, run
from tests.faults.processes import NodeProcess, end

from .support import at_once

_numbers = count()

NewServer = Callable[..., TierServer]


def config_of(folder: Path, *tiers: dict[str, object], **settings: object) -> NodeConfig:
    """Return a configuration whose tiers have their files in a folder."""
    return NodeConfig.model_validate(
        {
            "node_id": f"life-{os.getpid()}-{next(_numbers)}",
            "listen": "127.0.0.1:0",
            "tiers": [{**tier, "shm_dir": str(folder)} for tier in tiers or (cpu_tier(4),)],
            **settings,
        }
    )


@pytest.fixture
async def new_server(tmp_path: Path) -> AsyncIterator[NewServer]:
    """Make servers that a test starts, and that end with it."""
    servers: list[TierServer] = []

    def make(clock: ManualClock | None = None, **settings: object) -> TierServer:
        servers.append(TierServer(config_of(tmp_path, **settings), clock))
        return servers[-1]

    yield make
    for server in servers:
        server.hurry()
        await server.drain_and_stop()


def take_lease(server: TierServer, block: object) -> None:
    """Take a store lease on a block, which nobody completes."""
    request = PrepareStoreRequest(
        tier="cpu0",
        namespace=server.node.register(namespace()).fingerprint,
        runs=[run(block)],
        lease_id=os.urandom(16),
        owner="engine",
    )
    at_once(prepare_store(server.node, request))


def arenas(folder: Path) -> list[str]:
    """Return the names of the tiers' files in a folder."""
    return [path.name for path in folder.iterdir() if path.suffix == ".arena"]


async def seconds_of(work: Coroutine[Any, Any, object]) -> float:
    """Return how long some work takes."""
    start = time.monotonic()
    await work
    return time.monotonic() - start


async def test_a_stop_waits_for_open_leases(new_server: NewServer) -> None:
    """A node that stops goes on until the last lease has ended, and takes no new one."""
    server = new_server(drain_timeout=60)
    await server.start()
    take_lease(server, "a")

    stopping = asyncio.create_task(server.drain_and_stop())
    await asyncio.sleep(0.2)
    assert not stopping.done()
    with pytest.raises(KvtierError) as error:
        take_lease(server, "b")
    for lease in server.node.leases:
        server.node.leases.let_go(lease, End.RELEASED)
    await asyncio.wait_for(stopping, 10)

    assert (error.value.code.name, error.value.reason) == ("UNAVAILABLE", Reason.DRAINING)


async def test_a_stop_does_not_wait_for_pins(new_server: NewServer) -> None:
    """A pin may last for days, and nobody is at work under it."""
    server = new_server(drain_timeout=3600)
    await server.start()
    request = PinBlocksRequest(
        tier="cpu0",
        namespace=server.node.register(namespace()).fingerprint,
        blocks=[blocks_of("a")],
        lease_id=os.urandom(16),
        owner="operator",
    )
    at_once(pin_blocks(server.node, request))
    assert len(server.node.leases) == 1

    await asyncio.wait_for(server.drain_and_stop(), 10)


@pytest.mark.parametrize("clock", [None, ManualClock()], ids=["time", "a clock that stands still"])
async def test_a_stop_waits_no_longer_than_it_is_told(
    new_server: NewServer, clock: ManualClock | None
) -> None:
    """A lease that nobody ends holds a stop up for the drain timeout, by the wall clock."""
    server = new_server(clock, drain_timeout=0.3)
    await server.start()
    take_lease(server, "a")

    took = await asyncio.wait_for(seconds_of(server.drain_and_stop()), 20)

    assert took >= 0.3


async def test_a_stop_in_a_hurry_waits_for_nothing(new_server: NewServer) -> None:
    """Once told to hurry, a stop that waits goes on at once."""
    server = new_server(drain_timeout=3600)
    await server.start()
    take_lease(server, "a")
    stopping = asyncio.create_task(server.drain_and_stop())
    await asyncio.sleep(0.1)

    server.hurry()

    await asyncio.wait_for(stopping, 10)


async def test_a_stopped_server_leaves_no_file(new_server: NewServer, tmp_path: Path) -> None:
    """The memory of its tiers goes back with the server."""
    server = new_server()
    await server.start()
    assert len(arenas(tmp_path)) == 1

    await server.drain_and_stop()

    assert arenas(tmp_path) == []


async def test_a_tier_that_cannot_be_opened_leaves_nothing_of_the_others(tmp_path: Path) -> None:
    """Tiers that were opened before it are closed again."""
    missing = {**cpu_tier(4, name="cpu1"), "shm_dir": str(tmp_path / "missing")}
    config = config_of(tmp_path)
    config = config.model_copy(
        update={"tiers": (*config.tiers, type(config.tiers[0]).model_validate(missing))}
    )

    with pytest.raises(StoreError, match="cpu1"):
        TierServer(config)

    assert arenas(tmp_path) == []


async def test_a_node_that_cannot_be_made_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever goes wrong while the server is made, its tiers are closed."""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no node")

    monkeypatch.setattr(lifecycle, "Node", fail)

    with pytest.raises(RuntimeError, match="no node"):
        TierServer(config_of(tmp_path))

    assert arenas(tmp_path) == []


async def test_an_address_that_is_taken_leaves_nothing(tmp_path: Path) -> None:
    """A server that cannot listen closes its tiers before it says so."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        address = f"127.0.0.1:{held.getsockname()[1]}"

        with pytest.raises(StartError, match="in use"):
            await serve(config_of(tmp_path, listen=address))

    assert arenas(tmp_path) == []


@pytest.mark.slow
async def test_a_second_signal_ends_a_server_that_drains(tmp_path: Path) -> None:
    """The first signal lets work end; the second one does not wait for it."""
    settings = config_of(tmp_path, drain_timeout=3600).model_dump(
        mode="json", include={"node_id", "listen", "drain_timeout"}
    )
    tiers = [{**cpu_tier(4), "shm_dir": str(tmp_path)}]
    node = await NodeProcess.start(tmp_path, {**settings, "tiers": tiers})
    try:
        async with NodeClient(node.endpoint) as client:
            fingerprint = await client.register_namespace(namespace())
            await client.prepare_store("cpu0", fingerprint, [run("a")])
            node.process.send_signal(signal.SIGTERM)
            await asyncio.sleep(0.5)
            assert node.process.returncode is None

            node.process.send_signal(signal.SIGTERM)

            assert await asyncio.wait_for(node.process.wait(), 10) == 0
    finally:
        await end(node.process)
    assert arenas(tmp_path) == []
