"""A watch goes on by itself, and delivers everything once and in order."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import pytest

from kvtier.client import Backoff, InvalidArgumentError, KvtierError, NodeClient, Watch
from kvtier.v1.block_pb2 import Medium, Position
from kvtier.v1.event_service_pb2 import (
    EventView,
    NodePosition,
    SourceState,
    WatchEventsRequest,
    WatchEventsResponse,
)
from kvtier.wire.errors import Reason, exhausted, invalid, not_found, unavailable

from .fakes import FakeNode, Handler, play
from .manual_time import ManualTime
from .messages import FINGERPRINT, Script, stored

CONNECTING = SourceState.SOURCE_STATE_CONNECTING
SNAPSHOT = SourceState.SOURCE_STATE_SNAPSHOT
LIVE = SourceState.SOURCE_STATE_LIVE
SUSPECT = SourceState.SOURCE_STATE_SUSPECT
DOWN = SourceState.SOURCE_STATE_DOWN

BROKEN = unavailable("gone", Reason.INTERNAL)
DRAINING = unavailable("the node is draining; every event was sent", Reason.DRAINING)


def _watch(client: NodeClient, **options: Any) -> Watch:
    quick = Backoff(base=0.001, cap=0.01)
    return Watch(client, **{"heartbeat_interval": 600.0, "backoff": quick, **options})


def _hold(*messages: WatchEventsResponse) -> Handler:
    """Return a handler that streams messages and then stays open."""

    async def handler(request: WatchEventsRequest) -> AsyncIterator[WatchEventsResponse]:
        for message in messages:
            yield message
        await asyncio.Event().wait()

    return handler


async def _take(watch: Watch, count: int) -> list[WatchEventsResponse]:
    async with asyncio.timeout(10):
        return [await anext(watch) for _ in range(count)]


async def _until(
    watch: Watch, wanted: Callable[[WatchEventsResponse], bool]
) -> list[WatchEventsResponse]:
    found = []
    async with asyncio.timeout(10):
        async for message in watch:
            found.append(message)
            if wanted(message):
                break
    return found


def _is(state: SourceState.ValueType) -> Callable[[WatchEventsResponse], bool]:
    return lambda message: message.state.source == state


def _states(messages: list[WatchEventsResponse]) -> list[SourceState.ValueType]:
    return [each.state.source for each in messages if each.state.source]


def _real(messages: list[WatchEventsResponse]) -> list[WatchEventsResponse]:
    return [each for each in messages if not each.state.source]


async def test_messages_come_as_the_node_sends_them(node: FakeNode, client: NodeClient) -> None:
    """What the watch adds is the state of the source, and nothing else."""
    script = Script()
    sent = [script.tier(), *script.start(stored(1)), script.batch(stored(2)), script.progress()]
    node.on("WatchEvents", _hold(*sent))

    async with _watch(client) as watch:
        found = await _take(watch, len(sent) + 3)

    assert _real(found) == sent
    assert _states(found) == [CONNECTING, SNAPSHOT, LIVE]
    assert [each.node_id for each in found if each.state.source] == ["", "node", "node"]


async def test_filters_and_positions_are_asked_for(node: FakeNode, client: NodeClient) -> None:
    """The request is what the caller gave."""
    position = NodePosition(node_id="node", position=Position(epoch=7, sequence=3))
    node.on("WatchEvents", _hold(Script(through=3).synced(0)))

    async with _watch(
        client,
        positions=[position],
        tiers=["cpu0"],
        media=[Medium.MEDIUM_CPU],
        namespaces=[FINGERPRINT],
        view=EventView.EVENT_VIEW_FULL,
    ) as watch:
        await _take(watch, 3)

    assert node.requests("WatchEvents") == [
        WatchEventsRequest(
            positions=[position],
            tiers=["cpu0"],
            media=[Medium.MEDIUM_CPU],
            namespaces=[FINGERPRINT],
            view=EventView.EVENT_VIEW_FULL,
        )
    ]


async def test_a_broken_stream_is_resumed_where_it_broke(
    node: FakeNode, client: NodeClient
) -> None:
    """Over many breaks every sequence comes once and in order."""
    script = Script()
    first = [*script.start(stored(1)), script.batch(stored(2))]
    streams = [play(*first, then=BROKEN)]
    for number in range(3, 10):
        again = script.synced(number - 1)
        streams.append(play(again, script.batch(stored(number)), then=BROKEN))
    node.on("WatchEvents", *streams, _hold())

    async with _watch(client) as watch:
        found = await _until(watch, lambda message: message.through == 8)

    sequences = [batch.sequence for each in found for batch in each.batches.batches]
    assert sequences == list(range(1, 9))
    assert [
        [each.position.sequence for each in request.positions]
        for request in node.requests("WatchEvents")[:8]
    ] == [[], [1], [2], [3], [4], [5], [6], [7]]
    assert watch.breaks == 7
    assert watch.gaps == 0


async def test_the_last_events_before_a_break_are_delivered(
    node: FakeNode, client: NodeClient
) -> None:
    """A drain ends the stream behind its last event; all of them arrive."""
    script = Script()
    sent = [*script.start(), *(script.batch(stored(number)) for number in range(200))]
    node.on("WatchEvents", play(*sent, then=DRAINING), _hold())

    async with _watch(client) as watch:
        found = await _until(watch, _is(DOWN))

    assert _real(found) == sent
    assert found[-1].state.reason.endswith(f"{DRAINING.message} (DRAINING)")
    assert node.endpoint in found[-1].state.reason
    assert found[-1].through == 200


async def test_an_unfinished_snapshot_is_not_resumed(node: FakeNode, client: NodeClient) -> None:
    """A stream that breaks before synced starts over."""
    script = Script()
    half = [script.reset(), script.namespace(), script.page(stored(1)), script.batch(stored(2))]
    node.on("WatchEvents", play(*half, then=BROKEN), _hold(*Script().start(stored(5))))

    async with _watch(client) as watch:
        found = await _until(watch, _is(LIVE))

    assert _states(found) == [CONNECTING, SNAPSHOT, DOWN, SNAPSHOT, LIVE]
    assert [list(request.positions) for request in node.requests("WatchEvents")] == [[], []]


async def test_a_gap_is_a_broken_stream(node: FakeNode, client: NodeClient) -> None:
    """What lies behind a hole is not delivered; the hole is filled by resuming before it."""
    script = Script()
    sent = [*script.start(), script.batch(stored(1))]
    missed, behind = script.batch(stored(2)), script.batch(stored(3))
    node.on(
        "WatchEvents",
        _hold(*sent, behind),
        _hold(Script(through=1).synced(1), missed, behind),
    )

    async with _watch(client) as watch:
        found = await _until(watch, lambda message: message.through == 3)

    sequences = [batch.sequence for each in found for batch in each.batches.batches]
    assert sequences == [1, 2, 3]
    assert _states(found) == [CONNECTING, SNAPSHOT, LIVE, SUSPECT, LIVE]
    reasons = [each.state.reason for each in found if each.state.source == SUSPECT]
    assert reasons == [f"{node.endpoint}: sequences 2 to 2 are missing"]
    assert watch.gaps == 1


async def test_a_repeated_message_is_not_delivered_twice(
    node: FakeNode, client: NodeClient
) -> None:
    """A node that repeats itself is resumed, not believed."""
    script = Script()
    batch = script.batch(stored(1))
    node.on("WatchEvents", _hold(*Script().start(), batch, batch), _hold(script.synced(1)))

    async with _watch(client) as watch:
        found = await _until(watch, lambda each: each.through == 1 and each.HasField("synced"))

    assert sum(len(each.batches.batches) for each in found) == 1
    assert watch.gaps == 1


async def test_a_node_that_starts_anew_is_followed_into_its_new_life(
    node: FakeNode, client: NodeClient
) -> None:
    """The position of the first life is offered, and the reset that answers it is delivered."""
    first, second = Script(epoch=7), Script(epoch=8)
    node.on(
        "WatchEvents",
        play(*first.start(stored(1)), first.batch(stored(2)), then=BROKEN),
        _hold(*second.start(stored(3)), second.batch(stored(4))),
    )

    async with _watch(client) as watch:
        found = await _until(watch, lambda message: message.epoch == 8 and message.through == 1)

    (asked,) = node.requests("WatchEvents")[1].positions
    assert asked.position == Position(epoch=7, sequence=1)
    assert _states(found) == [CONNECTING, SNAPSHOT, LIVE, DOWN, SNAPSHOT, LIVE]


async def test_a_node_that_comes_back_on_its_address_is_found_again() -> None:
    """The same watch, over the same client, goes on after the server was gone."""
    async with FakeNode() as first, NodeClient(first.endpoint) as client:
        first.on("WatchEvents", _hold(*Script().start(stored(1))))
        watch = _watch(client)
        await _until(watch, _is(LIVE))

        await first.stop()
        await _until(watch, _is(DOWN))
        async with FakeNode(port=int(first.endpoint.rpartition(":")[2])) as second:
            second.on("WatchEvents", _hold(Script().synced(1)))
            await _until(watch, _is(LIVE))

        await watch.close()


async def test_down_is_told_once_and_names_the_address() -> None:
    """A node that is not there is one state, however often it is tried."""
    async with FakeNode() as gone:
        endpoint = gone.endpoint

    async with NodeClient(endpoint) as client, _watch(client) as watch:
        found = await _take(watch, 2)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await anext(watch)

        assert _states(found) == [CONNECTING, DOWN]
        assert f"{endpoint} cannot be reached" in found[1].state.reason
        assert watch.breaks > 1


async def test_three_missed_heartbeats_make_a_source_suspect(
    node: FakeNode, client: NodeClient
) -> None:
    """A stream that falls silent is told, given up and resumed."""
    time, script = ManualTime(), Script()
    node.on("WatchEvents", _hold(*script.start(), script.batch(stored(1))), _hold(script.synced(1)))
    watch = Watch(client, heartbeat_interval=2.0, clock=time.clock, sleep=time.sleep)
    await _until(watch, lambda message: message.through == 1)

    waiting = asyncio.create_task(_until(watch, _is(LIVE)))
    while not waiting.done():
        await asyncio.sleep(0.01)
        time.advance(0.5)
    found = await waiting
    await watch.close()

    assert _states(found) == [SUSPECT, LIVE]
    assert found[0].state.reason == f"{node.endpoint}: no message for 6 s"
    assert node.requests("WatchEvents")[1].positions[0].position.sequence == 1


async def test_heartbeats_keep_a_quiet_source_live(node: FakeNode, client: NodeClient) -> None:
    """Progress is proof of life: a stream is not given up while it comes."""
    time, script, beat = ManualTime(), Script(), asyncio.Event()

    async def beating(request: Any) -> AsyncIterator[WatchEventsResponse]:
        for message in script.start():
            yield message
        while True:
            await beat.wait()
            beat.clear()
            yield script.progress()

    node.on("WatchEvents", beating)
    watch = Watch(client, heartbeat_interval=1.0, clock=time.clock, sleep=time.sleep)
    await _until(watch, _is(LIVE))

    for _ in range(10):
        time.advance(2.0)
        beat.set()
        (found,) = await _take(watch, 1)
        assert found.HasField("progress")

    await watch.close()
    assert watch.breaks == 0


async def test_a_busy_reader_does_not_make_a_source_suspect(
    node: FakeNode, client: NodeClient
) -> None:
    """Silence counts only while somebody waits for a message."""
    time, script = ManualTime(), Script()
    many = [script.batch(stored(number)) for number in range(100)]
    node.on("WatchEvents", _hold(*Script().start(), *many, script.progress()))
    watch = Watch(client, heartbeat_interval=1.0, clock=time.clock, sleep=time.sleep)
    await _until(watch, _is(LIVE))

    for _ in range(20):
        time.advance(5.0)
        await asyncio.sleep(0.01)
    found = await _until(watch, lambda message: message.HasField("progress"))
    await watch.close()

    assert _states(found) == []
    assert watch.breaks == 0


async def test_a_node_that_accepts_and_says_nothing_is_down(
    node: FakeNode, client: NodeClient
) -> None:
    """A source that was never heard is not suspect but out of reach."""
    time = ManualTime()
    node.on("WatchEvents", _hold())
    watch = Watch(client, heartbeat_interval=1.0, clock=time.clock, sleep=time.sleep)

    waiting = asyncio.create_task(_take(watch, 2))
    while not waiting.done():
        await asyncio.sleep(0.01)
        time.advance(0.5)
    found = await waiting
    await watch.close()

    assert _states(found) == [CONNECTING, DOWN]


@pytest.mark.parametrize(
    "error",
    [
        invalid("media: 99 is no medium"),
        not_found("no tier gpu7", Reason.TIER_UNKNOWN),
        KvtierError(grpc.StatusCode.PERMISSION_DENIED, "", "not yours"),
        KvtierError(grpc.StatusCode.UNAUTHENTICATED, "", "who are you"),
        KvtierError(grpc.StatusCode.UNIMPLEMENTED, "", "no such call"),
    ],
)
async def test_what_trying_again_cannot_help_is_raised(
    node: FakeNode, client: NodeClient, error: KvtierError
) -> None:
    """The caller gets the error after what came before it, and the watch is over."""
    node.on("WatchEvents", play(*Script().start(), then=error))
    watch = _watch(client)
    found = await _take(watch, 7)

    with pytest.raises(KvtierError) as caught:
        await anext(watch)

    assert caught.value.code is error.code
    assert len(_real(found)) == 4
    assert [message async for message in watch] == []
    assert node.names() == ["WatchEvents"]
    await watch.close()


async def test_a_limit_is_waited_for_as_long_as_the_node_says(
    node: FakeNode, client: NodeClient
) -> None:
    """RESOURCE_EXHAUSTED is no end: the next try comes when the node said."""
    time = ManualTime()
    full = exhausted("too many followers", Reason.FOLLOWER_LIMIT, retry_after=2.5)
    node.on("WatchEvents", play(then=full), _hold(*Script().start()))
    watch = Watch(client, clock=time.clock, sleep=time.sleep, backoff=Backoff(random=lambda: 0.0))
    found = await _take(watch, 2)
    assert _states(found) == [CONNECTING, DOWN]

    await asyncio.sleep(0.05)
    time.advance(2.4)
    await asyncio.sleep(0.05)
    assert node.names() == ["WatchEvents"]
    time.advance(0.2)
    found = await _until(watch, _is(LIVE))
    await watch.close()

    assert 2.5 in time.asked
    assert node.names() == ["WatchEvents"] * 2


async def test_pauses_grow_to_the_cap_and_shrink_after_a_good_stream(
    node: FakeNode, client: NodeClient
) -> None:
    """A node that breaks every stream at once is tried ever more rarely, at most each 5 s."""
    time = ManualTime()
    node.on("WatchEvents", play(then=BROKEN))
    backoff = Backoff(random=lambda: 1.0)
    watch = Watch(
        client, heartbeat_interval=600.0, clock=time.clock, sleep=time.sleep, backoff=backoff
    )
    reading = asyncio.create_task(_until(watch, lambda message: message.through == 1))

    def pauses() -> list[float]:
        return [each for each in time.asked if each < 600]

    while len(pauses()) < 8:
        await asyncio.sleep(0.01)
        time.advance((pauses() or [0.0])[-1])
    assert pauses() == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0])

    after, over = Script(), asyncio.Event()

    async def good(request: Any) -> AsyncIterator[WatchEventsResponse]:
        for message in Script().start():
            yield message
        await over.wait()
        raise BROKEN

    node.on("WatchEvents", good, _hold(after.synced(0), after.batch(stored(1))))
    time.advance(5.0)
    await asyncio.sleep(0.1)
    time.advance(60.0)
    over.set()
    while not reading.done():
        await asyncio.sleep(0.01)
        time.advance(0.2)
    await watch.close()

    assert pauses()[8:] == [0.1]


async def test_closing_ends_a_read_that_waits(node: FakeNode, client: NodeClient) -> None:
    """Another task can end the watch; the reader's loop just ends."""
    node.on("WatchEvents", _hold(*Script().start()))
    watch = _watch(client)
    await _until(watch, _is(LIVE))
    reading = asyncio.create_task(_until(watch, lambda message: False))
    await asyncio.sleep(0.05)

    await watch.close()

    assert await reading == []
    await watch.close()


async def test_closing_leaves_no_task_behind(node: FakeNode, client: NodeClient) -> None:
    """A closed watch has ended its call and everything that served it."""
    before = asyncio.all_tasks()
    node.on("WatchEvents", _hold(*Script().start()))
    async with _watch(client) as watch:
        await _until(watch, _is(LIVE))

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
    watch = _watch(client)
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
    node.on("WatchEvents", _hold(*sent))
    async with _watch(client) as watch:
        assert watch.positions == []
        await _until(watch, lambda message: message.through == 3)
        positions = watch.positions

    assert positions == [NodePosition(node_id="node", position=Position(epoch=7, sequence=3))]


async def test_a_rewound_watch_starts_over(node: FakeNode, client: NodeClient) -> None:
    """After rewind the next stream is asked for without a position."""
    script = Script()
    sent = [*script.start(stored(1)), script.batch(stored(2))]
    node.on("WatchEvents", _hold(*sent), _hold(*Script(epoch=7, through=1).start(stored(1, 2))))
    watch = _watch(client)
    await _until(watch, lambda message: message.through == 1)

    watch.rewind()
    found = await _until(watch, _is(LIVE))
    await watch.close()

    assert _states(found) == [CONNECTING, SNAPSHOT, LIVE]
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
    node.on("WatchEvents", _hold(*Script().start()))

    async with _watch(client, positions=[NodePosition(node_id="node")]) as watch:
        await _until(watch, _is(LIVE))

    assert list(node.requests("WatchEvents")[0].positions) == []


@pytest.mark.parametrize("interval", [0.0, -1.0])
async def test_a_heartbeat_interval_is_positive(client: NodeClient, interval: float) -> None:
    """An interval that cannot be kept is refused when the watch is made."""
    with pytest.raises(InvalidArgumentError, match="heartbeat_interval"):
        Watch(client, heartbeat_interval=interval)
