"""A watch tells what became of its source, and when it tries again."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from kvtier.client import Backoff, KvtierError, NodeClient, Watch
from kvtier.v1.event_service_pb2 import (
    WatchEventsResponse,
)
from kvtier.wire.errors import Reason, exhausted, invalid, not_found

from .fakes import FakeNode, play
from .manual_time import ManualTime
from .messages import Script, stored
from .proxying import settle
from .watching import (
    BROKEN,
    CONNECTING,
    DOWN,
    LIVE,
    SNAPSHOT,
    SUSPECT,
    hold,
    is_state,
    open_watch,
    real,
    states,
    take,
    until,
)


async def test_a_node_that_comes_back_on_its_address_is_found_again() -> None:
    """The same watch, over the same client, goes on after the server was gone."""
    async with FakeNode() as first, NodeClient(first.endpoint) as client:
        first.on("WatchEvents", hold(*Script().start(stored(1))))
        watch = open_watch(client)
        await until(watch, is_state(LIVE))

        await first.stop()
        await until(watch, is_state(DOWN))
        async with FakeNode(port=int(first.endpoint.rpartition(":")[2])) as second:
            second.on("WatchEvents", hold(Script().synced(1)))
            await until(watch, is_state(LIVE))

        await watch.close()


async def test_a_node_that_was_replaced_at_its_address_is_not_told_of_any_more(
    node: FakeNode, client: NodeClient
) -> None:
    """What becomes of the next node there says nothing of the first, and it is not asked for."""
    old, new, gap = Script("old"), Script("new"), Script("new", through=5)
    node.on(
        "WatchEvents",
        play(*old.start(stored(1)), then=BROKEN),
        hold(*new.start(), gap.batch(stored(2))),
        hold(new.synced(0)),
    )

    async with open_watch(client) as watch:
        found = [message for _ in range(3) for message in await until(watch, is_state(LIVE))]
        positions = watch.positions

    told = [(each.node_id, each.state.source) for each in found if each.state.source]
    assert [state for name, state in told if name == "old"] == [SNAPSHOT, LIVE, DOWN]
    assert [state for name, state in told if name == "new"] == [SNAPSHOT, LIVE, SUSPECT, LIVE]
    assert [each.node_id for each in positions] == ["new"]
    asked = [[each.node_id for each in one.positions] for one in node.requests("WatchEvents")]
    assert asked == [[], ["old"], ["new"]]


async def test_down_is_told_once_and_names_the_address() -> None:
    """A node that is not there is one state, however often it is tried."""
    async with FakeNode() as gone:
        endpoint = gone.endpoint

    async with NodeClient(endpoint) as client, open_watch(client) as watch:
        found = await take(watch, 2)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await anext(watch)

        assert states(found) == [CONNECTING, DOWN]
        assert f"{endpoint} cannot be reached" in found[1].state.reason
        assert watch.breaks > 1


async def test_three_missed_heartbeats_make_a_source_suspect(
    node: FakeNode, client: NodeClient
) -> None:
    """A stream that falls silent is told, given up and resumed."""
    time, script = ManualTime(), Script()
    node.on("WatchEvents", hold(*script.start(), script.batch(stored(1))), hold(script.synced(1)))
    watch = Watch(client, heartbeat_interval=2.0, clock=time.clock, sleep=time.sleep)
    await until(watch, lambda message: message.through == 1)

    waiting = asyncio.create_task(until(watch, is_state(LIVE)))
    while not waiting.done():
        await asyncio.sleep(0.01)
        time.advance(0.5)
    found = await waiting
    await watch.close()

    assert states(found) == [SUSPECT, LIVE]
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
    await until(watch, is_state(LIVE))

    for _ in range(10):
        time.advance(2.0)
        beat.set()
        (found,) = await take(watch, 1)
        assert found.HasField("progress")

    await watch.close()
    assert watch.breaks == 0


async def test_a_busy_reader_does_not_make_a_source_suspect(
    node: FakeNode, client: NodeClient
) -> None:
    """Silence counts only while somebody waits for a message."""
    time, script = ManualTime(), Script()
    many = [script.batch(stored(number)) for number in range(100)]
    node.on("WatchEvents", hold(*Script().start(), *many, script.progress()))
    watch = Watch(client, heartbeat_interval=1.0, clock=time.clock, sleep=time.sleep)
    await until(watch, is_state(LIVE))
    async with asyncio.timeout(10):
        while len(watch._ready) < 16:  # noqa: ASYNC110 - what the watch read ahead has no event
            await asyncio.sleep(0.01)

    for _ in range(20):
        time.advance(5.0)
        await asyncio.sleep(0.01)
    found = await until(watch, lambda message: message.HasField("progress"))
    await watch.close()

    assert states(found) == []
    assert watch.breaks == 0


async def test_an_event_loop_that_stood_still_misses_one_heartbeat_at_most(
    node: FakeNode, client: NodeClient
) -> None:
    """A process that could not run for a while does not blame the node for it."""
    time, script, go = ManualTime(), Script(), asyncio.Event()

    async def late(request: Any) -> AsyncIterator[WatchEventsResponse]:
        for message in script.start():
            yield message
        await go.wait()
        yield script.progress()

    node.on("WatchEvents", late)
    watch = Watch(client, heartbeat_interval=1.0, clock=time.clock, sleep=time.sleep)
    await until(watch, is_state(LIVE))

    for _ in range(2):
        await asyncio.sleep(0.05)
        time.advance(100.0)
    go.set()
    (found,) = await take(watch, 1)
    await watch.close()

    assert found.HasField("progress")
    assert watch.breaks == 0


async def test_a_node_that_accepts_and_says_nothing_is_down(
    node: FakeNode, client: NodeClient
) -> None:
    """A source that was never heard is not suspect but out of reach."""
    time = ManualTime()
    node.on("WatchEvents", hold())
    watch = Watch(client, heartbeat_interval=1.0, clock=time.clock, sleep=time.sleep)

    waiting = asyncio.create_task(take(watch, 2))
    while not waiting.done():
        await asyncio.sleep(0.01)
        time.advance(0.5)
    found = await waiting
    await watch.close()

    assert states(found) == [CONNECTING, DOWN]


@pytest.mark.parametrize(
    "error",
    [
        invalid("media: 99 is no medium"),
        not_found("no tier gpu7", Reason.TIER_UNKNOWN),
        KvtierError(grpc.StatusCode.PERMISSION_DENIED, "", "not yours"),
        KvtierError(grpc.StatusCode.UNAUTHENTICATED, "", "who are you"),
    ],
)
async def test_what_trying_again_cannot_help_is_raised(
    node: FakeNode, client: NodeClient, error: KvtierError
) -> None:
    """The caller gets the error after what came before it, and the watch is over."""
    node.on("WatchEvents", play(*Script().start(), then=error))
    watch = open_watch(client)
    found = await take(watch, 7)

    with pytest.raises(KvtierError) as caught:
        await anext(watch)

    assert caught.value.code is error.code
    assert len(real(found)) == 4
    assert [message async for message in watch] == []
    assert node.names() == ["WatchEvents"]
    await watch.close()


async def test_a_stranger_at_the_address_is_waited_out(node: FakeNode, client: NodeClient) -> None:
    """Who does not know the call is no node; the node may be back at its address with the next."""
    script = Script()
    stranger = KvtierError(grpc.StatusCode.UNIMPLEMENTED, "", "no such call")
    node.on("WatchEvents", play(*script.start(), then=stranger), play(then=stranger), hold())
    watch = open_watch(client)

    await take(watch, 8)
    async with asyncio.timeout(10):
        while len(node.names()) < 3:  # noqa: ASYNC110 - what it waits for has no event
            await asyncio.sleep(0.01)
    await watch.close()

    assert watch.breaks == 2


async def test_a_limit_is_waited_for_as_long_as_the_node_says(
    node: FakeNode, client: NodeClient
) -> None:
    """RESOURCE_EXHAUSTED is no end: the next try comes when the node said."""
    time = ManualTime()
    full = exhausted("too many followers", Reason.FOLLOWER_LIMIT, retry_after=2.5)
    node.on("WatchEvents", play(then=full), hold(*Script().start()))
    watch = Watch(client, clock=time.clock, sleep=time.sleep, backoff=Backoff(random=lambda: 0.0))
    found = await take(watch, 2)
    assert states(found) == [CONNECTING, DOWN]

    await asyncio.sleep(0.05)
    time.advance(2.4)
    await asyncio.sleep(0.05)
    assert node.names() == ["WatchEvents"]
    time.advance(0.2)
    found = await until(watch, is_state(LIVE))
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
    reading = asyncio.create_task(until(watch, lambda message: message.through == 1))

    def pauses() -> list[float]:
        return [each for each in time.asked if each < 600]

    for asked in range(1, 9):
        await settle(lambda: len(pauses()) == asked)  # noqa: B023 - awaited at once
        if asked < 8:
            time.advance(pauses()[-1])
    assert pauses() == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0])

    after, over = Script(), asyncio.Event()

    async def good(request: Any) -> AsyncIterator[WatchEventsResponse]:
        for message in Script().start():
            yield message
        await over.wait()
        raise BROKEN

    node.on("WatchEvents", good, hold(after.synced(0), after.batch(stored(1))))
    time.advance(5.0)
    await settle(lambda: len(node.requests("WatchEvents")) == 9)
    time.advance(60.0)
    over.set()
    while not reading.done():
        await asyncio.sleep(0.01)
        time.advance(0.2)
    await watch.close()

    assert pauses()[8:] == [0.1]
