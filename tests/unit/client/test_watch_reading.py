"""A watch can be read, left, closed and started over."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kvtier.client import InvalidArgumentError, NodeClient, Watch
from kvtier.v1.block_pb2 import Medium, Position
from kvtier.v1.event_service_pb2 import (
    EventView,
    NodePosition,
    WatchEventsRequest,
    WatchEventsResponse,
)

from .fakes import FakeNode
from .messages import FINGERPRINT, Script, stored
from .watching import (
    CONNECTING,
    LIVE,
    SNAPSHOT,
    hold,
    is_state,
    open_watch,
    states,
    take,
    until,
)


async def test_filters_and_positions_are_asked_for(node: FakeNode, client: NodeClient) -> None:
    """The request is what the caller gave."""
    position = NodePosition(node_id="node", position=Position(epoch=7, sequence=3))
    node.on("WatchEvents", hold(Script(through=3).synced(0)))

    async with open_watch(
        client,
        positions=[position],
        tiers=["cpu0"],
        media=[Medium.MEDIUM_CPU],
        namespaces=[FINGERPRINT],
        view=EventView.EVENT_VIEW_FULL,
    ) as watch:
        await take(watch, 3)

    assert node.requests("WatchEvents") == [
        WatchEventsRequest(
            positions=[position],
            tiers=["cpu0"],
            media=[Medium.MEDIUM_CPU],
            namespaces=[FINGERPRINT],
            view=EventView.EVENT_VIEW_FULL,
        )
    ]


async def test_closing_ends_a_read_that_waits(node: FakeNode, client: NodeClient) -> None:
    """Another task can end the watch; the reader's loop just ends."""
    node.on("WatchEvents", hold(*Script().start()))
    watch = open_watch(client)
    await until(watch, is_state(LIVE))
    reading = asyncio.create_task(until(watch, lambda message: False))
    await asyncio.sleep(0.05)

    await watch.close()

    assert await reading == []
    await watch.close()


async def test_closing_leaves_no_task_behind(node: FakeNode, client: NodeClient) -> None:
    """A closed watch has ended its call and everything that served it."""
    before = asyncio.all_tasks()
    node.on("WatchEvents", hold(*Script().start()))
    async with open_watch(client) as watch:
        await until(watch, is_state(LIVE))

    await asyncio.sleep(0.1)

    left = {task.get_coro().__qualname__ for task in asyncio.all_tasks() - before}  # type: ignore[union-attr]
    assert not {name for name in left if "Watch" in name or "Listener" in name}


async def test_a_cancelled_read_loses_nothing_and_costs_no_stream(
    node: FakeNode, client: NodeClient
) -> None:
    """A reader that polls with short timeouts gets everything, over one stream."""
    script, go = Script(), asyncio.Event()

    async def slow(request: Any) -> AsyncIterator[WatchEventsResponse]:
        for message in script.start():
            yield message
        for number in range(20):
            await asyncio.sleep(0.01)
            yield script.batch(stored(number))

    node.on("WatchEvents", slow)
    found: list[WatchEventsResponse] = []
    watch = open_watch(client)
    async with asyncio.timeout(10):
        while not found or found[-1].through < 20:
            try:
                found.append(await asyncio.wait_for(anext(watch), 0.003))
            except TimeoutError:
                go.set()
    await watch.close()

    assert go.is_set()
    assert [each.sequence for m in found for each in m.batches.batches] == list(range(1, 21))
    assert len(node.requests("WatchEvents")) == 1


async def test_another_watch_can_go_on_where_one_was_closed(
    node: FakeNode, client: NodeClient
) -> None:
    """The position is that of the last message delivered, not of what was read ahead."""
    script = Script()
    sent = [*script.start(), *(script.batch(stored(number)) for number in range(10))]
    node.on("WatchEvents", hold(*sent))
    async with open_watch(client) as watch:
        assert watch.positions == []
        await until(watch, lambda message: message.through == 3)
        positions = watch.positions

    assert positions == [NodePosition(node_id="node", position=Position(epoch=7, sequence=3))]


async def test_a_rewound_watch_starts_over(node: FakeNode, client: NodeClient) -> None:
    """After rewind the next stream is asked for without a position."""
    script = Script()
    sent = [*script.start(stored(1)), script.batch(stored(2))]
    node.on("WatchEvents", hold(*sent), hold(*Script(epoch=7, through=1).start(stored(1, 2))))
    watch = open_watch(client)
    await until(watch, lambda message: message.through == 1)

    watch.rewind()
    found = await until(watch, is_state(LIVE))
    await watch.close()

    assert states(found) == [CONNECTING, SNAPSHOT, LIVE]
    assert found[0].node_id == "node"
    assert [list(request.positions) for request in node.requests("WatchEvents")] == [[], []]


@pytest.mark.parametrize(
    ("name", "value"),
    [("tiers", "cpu0"), ("media", [2**40]), ("namespaces", ["text"]), ("positions", [Position()])],
)
async def test_a_bad_filter_is_refused_by_name(client: NodeClient, name: str, value: Any) -> None:
    """What the request cannot hold is told when the watch is made, before any call."""
    with pytest.raises(InvalidArgumentError, match=f"^{name} must be a sequence"):
        Watch(client, **{name: value})


async def test_a_node_without_a_position_starts_with_a_snapshot(
    node: FakeNode, client: NodeClient
) -> None:
    """Naming a node alone is no place to resume."""
    node.on("WatchEvents", hold(*Script().start()))

    async with open_watch(client, positions=[NodePosition(node_id="node")]) as watch:
        await until(watch, is_state(LIVE))

    assert list(node.requests("WatchEvents")[0].positions) == []


@pytest.mark.parametrize("interval", [0.0, -1.0])
async def test_a_heartbeat_interval_is_positive(client: NodeClient, interval: float) -> None:
    """An interval that cannot be kept is refused when the watch is made."""
    with pytest.raises(InvalidArgumentError, match="heartbeat_interval"):
        Watch(client, heartbeat_interval=interval)
