"""The pings of a client are as rare as a node wants them, so a quiet connection is never cut."""

import asyncio
from typing import Any

import grpc.aio
import pytest

from kvtier.client import channel
from kvtier.server import channel_options as server_side
from kvtier.server.config import LimitsConfig
from kvtier.server.serving import serving
from kvtier.v1.event_service_pb2 import WatchEventsRequest
from kvtier.v1.event_service_pb2_grpc import EventServiceStub
from kvtier.v1.tier_service_pb2 import (
    GetNodeRequest,
)
from kvtier.v1.tier_service_pb2_grpc import TierServiceStub

from .conftest import Serve
from .support import NO_HEARTBEATS, cpu_tier

# Time in these tests runs so many times as fast as the options say; gRPC pings each second at most.
FASTER = 10
_TIMES = ("keepalive_time_ms", "keepalive_timeout_ms", "ping_interval_without_data_ms")
# The floor that docs/protocol.md states, in milliseconds.
FLOOR_MS = 10_000

Options = list[tuple[str, Any]]


def hasten(options: Options) -> Options:
    return [(name, value // FASTER if name.endswith(_TIMES) else value) for name, value in options]


@pytest.fixture(autouse=True)
def _hastened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what the real options of a node say come about sooner."""
    server = server_side.server_options
    # The node's own pings would do for the client's, which would then be quiet.
    monkeypatch.setattr(
        serving,
        "server_options",
        lambda limits: [each for each in hasten(server(limits)) if "keepalive_time" not in each[0]],
    )


def test_what_a_client_sends_is_what_a_node_permits() -> None:
    """Both sides' own pings keep to the floor, with calls and without."""
    client = dict(channel.channel_options())
    server = dict(server_side.server_options(LimitsConfig()))
    floor = server["grpc.http2.min_ping_interval_without_data_ms"]

    assert floor == FLOOR_MS
    assert int(client["grpc.keepalive_time_ms"]) >= 2 * floor
    assert server["grpc.keepalive_permit_without_calls"] == 1
    assert client["grpc.keepalive_permit_without_calls"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("follows", [False, True], ids=["idle", "following"])
async def test_a_client_that_pings_often_keeps_its_connection(serve: Serve, follows: bool) -> None:
    """It may ping as often as the floor allows, without a call or with one that is silent."""
    node = await serve(cpu_tier(4), events=NO_HEARTBEATS)
    options = [
        ("grpc.keepalive_time_ms", int(FLOOR_MS / FASTER * 1.05)),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
    ]
    async with grpc.aio.insecure_channel(node.endpoint, options=options) as connection:
        stub: Any = TierServiceStub(connection)
        await stub.GetNode(GetNodeRequest())
        if follows:
            events: Any = EventServiceStub(connection)
            call = events.WatchEvents(WatchEventsRequest())
            await call.read()
        ready = grpc.ChannelConnectivity.READY
        assert connection.get_state() is ready

        lost = asyncio.create_task(connection.wait_for_state_change(ready))
        await asyncio.wait({lost}, timeout=6 * FLOOR_MS / FASTER / 1000)

        assert not lost.done()
        lost.cancel()
        await stub.GetNode(GetNodeRequest())
