"""A node lives from the first moment on, and is ready when its tiers know what they hold."""

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from kvtier.client import NodeClient
from kvtier.server import lifecycle
from kvtier.server.config import NodeConfig
from kvtier.server.lifecycle import TierServer
from kvtier.server.stores import open as opening
from kvtier.v1 import (
    event_service_pb2,
    node_service_pb2,
    tier_service_pb2,
    transfer_service_pb2,
)
from kvtier.v1.event_service_pb2 import TierState
from tests.contract.support import cpu_tier
from tests.waiting import until

from .lives import FS, HeldShelf, chain, fs_tier, lay

NAMES = (
    "",
    *(
        service.full_name
        for file in (event_service_pb2, tier_service_pb2, transfer_service_pb2, node_service_pb2)
        for service in file.DESCRIPTOR.services_by_name.values()
    ),
)
_numbers = count()
Start = Callable[[], Awaitable[TierServer]]


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> HeldShelf:
    """A shelf on which nothing can be looked at yet; each tier of files is on it."""
    shelf = HeldShelf(0)
    lay(shelf, chain(1, 2))
    monkeypatch.setattr(opening, "_open_shelf", lambda *_: shelf)
    return shelf


@pytest.fixture
async def start(shelf: HeldShelf) -> AsyncIterator[Start]:
    servers: list[TierServer] = []

    async def start() -> TierServer:
        config = {
            "node_id": f"ready-{os.getpid()}-{next(_numbers)}",
            "listen": "127.0.0.1:0",
            "tiers": [cpu_tier(4), fs_tier(10, io_timeout=0.2)],
            "drain_timeout": 0,
        }
        servers.append(TierServer(NodeConfig.model_validate(config)))
        await servers[-1].start()
        return servers[-1]

    yield start
    shelf.gate.set()
    shelf.let_through()
    for server in servers:
        await server.drain_and_stop()


async def health(server: TierServer) -> dict[str, str]:
    """What the standard health service says of every name."""
    async with grpc.aio.insecure_channel(server.address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        said = {
            name: (await stub.Check(health_pb2.HealthCheckRequest(service=name))).status
            for name in (*NAMES, "liveness")
        }
    word = health_pb2.HealthCheckResponse.ServingStatus.Name
    return {name: word(status) for name, status in said.items()}


def all_say(word: str) -> dict[str, str]:
    return {**dict.fromkeys(NAMES, word), "liveness": "SERVING"}


async def test_a_node_is_ready_when_its_tiers_know_what_they_hold(
    start: Start, shelf: HeldShelf
) -> None:
    """Until then it serves all the same, and says that it lives."""
    server = await start()
    assert await health(server) == all_say("NOT_SERVING")
    async with NodeClient(server.address) as client:
        tiers = {tier.name: tier.state for tier in await client.list_tiers()}
    assert tiers["cpu0"] == TierState.TIER_STATE_READY
    assert tiers[FS] == TierState.TIER_STATE_RECOVERING

    shelf.let_through()
    await until(lambda: not server.node.tier(FS).health.recovering)

    assert await health(server) == all_say("SERVING")


async def test_a_tier_that_cannot_be_reached_holds_no_node_back(
    start: Start, shelf: HeldShelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The port opens, and the node is ready with its other tiers."""
    monkeypatch.setattr(lifecycle, "_NAMESPACES_WAIT", 0.1)
    shelf.gate.clear()

    server = await start()
    await until(lambda: server.node.tier(FS).health.reason == "it does not answer")

    assert await health(server) == all_say("SERVING")


async def test_namespaces_are_known_before_the_first_request(start: Start) -> None:
    """Nobody can register another one of their name in between."""
    server = await start()

    assert [info.description.name for info in server.node.registry.by_name()] == ["llama"]


async def test_a_node_that_drains_lives_and_is_not_ready(start: Start, shelf: HeldShelf) -> None:
    """Recovery that ends while the node drains does not make it ready again."""
    server = await start()
    server.serving.readiness.leave()

    shelf.let_through()
    await until(lambda: not server.node.tier(FS).health.recovering)

    assert await health(server) == all_say("NOT_SERVING")


async def test_a_stop_does_not_wait_for_recovery(start: Start, shelf: HeldShelf) -> None:
    """A node can be stopped while a tier looks at what it holds."""
    server = await start()
    shelf.gate.clear()

    await server.drain_and_stop()

    assert server.node.tier(FS).health.recovering


async def test_a_stop_in_a_hurry_leaves_no_deletion_unattended(
    start: Start, shelf: HeldShelf, caplog: pytest.LogCaptureFixture
) -> None:
    """What could not be deleted any more is counted in the log, and nothing else is said of it."""
    server = await start()
    keeping = server.node.tier(FS).keeping
    assert keeping is not None
    shelf.gate.clear()
    keeping.store.discard(list(shelf.blocks))
    server.hurry()

    await server.drain_and_stop()
    gc.collect()
    await asyncio.sleep(0)

    assert "never retrieved" not in caplog.text


async def test_a_drain_tells_what_is_not_deleted_yet_and_goes_on_with_it(
    start: Start, shelf: HeldShelf
) -> None:
    """A shelf that stands still leaves deletions open; they are done once it works again."""
    server = await start()
    shelf.let_through()
    await until(lambda: not server.node.tier(FS).health.recovering)
    keeping = server.node.tier(FS).keeping
    assert keeping is not None
    shelf.gate.clear()
    keeping.store.discard(list(shelf.blocks))
    server.hurry()

    async with NodeClient(server.address) as client:
        left = await client.drain()
    shelf.gate.set()

    assert left.undeleted_blocks == 2
    assert await health(server) == all_say("NOT_SERVING")
    await until(lambda: not keeping.doomed)
    assert shelf.blocks == {}
