"""A connection that brings nothing is left for a new one; nobody else's call is cut for it."""

import asyncio
from typing import Any

import grpc
import pytest

from kvtier.client import KvtierError, NodeClient, Watch
from kvtier.v1.tier_service_pb2 import (
    GetNodeResponse,
)

from .fakes import FakeNode, Handler, play
from .manual_time import ManualTime
from .messages import Script, stored
from .watching import BROKEN, LIVE, hold, is_state, open_watch, until


def peers(node: FakeNode, method: str) -> list[str]:
    return [peer for name, peer in node.peers if name == method]


async def fall_silent(watch: Watch, time: ManualTime) -> None:
    """Let time pass until a watch that heard nothing follows again."""
    waiting = asyncio.create_task(until(watch, is_state(LIVE)))
    while not waiting.done():
        await asyncio.sleep(0.01)
        time.advance(0.5)
    await waiting


async def test_a_silent_stream_is_resumed_over_another_connection(
    node: FakeNode, client: NodeClient
) -> None:
    """So are the client's other calls; one that is under way may end where it began."""
    time, answered = ManualTime(), asyncio.Event()

    async def slow(request: Any) -> GetNodeResponse:
        await answered.wait()
        return GetNodeResponse()

    node.on("WatchEvents", hold(*Script().start()), hold(Script().synced(0)))
    node.on("GetNode", slow, lambda _: GetNodeResponse())
    async with Watch(client, clock=time.clock, sleep=time.sleep) as watch:
        await until(watch, is_state(LIVE))
        under_way = asyncio.create_task(client.get_node())

        await fall_silent(watch, time)
        answered.set()
        await under_way
        await client.get_node()

    old, new = peers(node, "WatchEvents")
    assert old != new
    assert peers(node, "GetNode") == [old, new]


async def test_watches_of_one_client_leave_its_connection_once(
    node: FakeNode, client: NodeClient
) -> None:
    """The second to notice goes where the first went."""
    time = ManualTime()
    node.on(
        "WatchEvents", hold(*Script().start()), hold(*Script().start()), hold(Script().synced(0))
    )
    watches = [Watch(client, clock=time.clock, sleep=time.sleep) for _ in range(2)]
    for watch in watches:
        await until(watch, is_state(LIVE))

    await asyncio.gather(*(fall_silent(watch, time) for watch in watches))
    for watch in watches:
        await watch.close()

    old, same, new, joined = peers(node, "WatchEvents")
    assert old == same
    assert new == joined
    assert old != new


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(play(*Script().start(), then=BROKEN), id="ended"),
        pytest.param(hold(*Script().start(), Script(through=4).batch(stored(1))), id="gap"),
    ],
)
async def test_a_stream_that_broke_aloud_is_resumed_over_its_connection(
    node: FakeNode, client: NodeClient, broken: Handler
) -> None:
    """What the node said proves that the connection is good."""
    node.on("WatchEvents", broken, hold(Script().synced(0)))
    async with open_watch(client) as watch:
        await until(watch, is_state(LIVE))
        await until(watch, is_state(LIVE))

    old, new = peers(node, "WatchEvents")
    assert old == new


async def test_a_client_that_is_closed_ends_its_watches(node: FakeNode, client: NodeClient) -> None:
    """Who reads on is told, rather than left waiting."""
    node.on("WatchEvents", hold(*Script().start()))
    watch = open_watch(client)
    await until(watch, is_state(LIVE))
    reading = asyncio.create_task(until(watch, is_state(LIVE)))
    await asyncio.sleep(0.05)

    await client.close()

    with pytest.raises(KvtierError, match="is closed") as caught:
        await reading
    assert caught.value.code is grpc.StatusCode.FAILED_PRECONDITION
    await watch.close()
