"""A watch goes on by itself, and delivers everything once and in order."""

from kvtier.client import NodeClient
from kvtier.v1.block_pb2 import Position

from .fakes import FakeNode, play
from .messages import Script, stored
from .watching import (
    BROKEN,
    CONNECTING,
    DOWN,
    DRAINING,
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


async def test_messages_come_as_the_node_sends_them(node: FakeNode, client: NodeClient) -> None:
    """What the watch adds is the state of the source, and nothing else."""
    script = Script()
    sent = [script.tier(), *script.start(stored(1)), script.batch(stored(2)), script.progress()]
    node.on("WatchEvents", hold(*sent))

    async with open_watch(client) as watch:
        found = await take(watch, len(sent) + 3)

    assert real(found) == sent
    assert states(found) == [CONNECTING, SNAPSHOT, LIVE]
    assert [each.node_id for each in found if each.state.source] == ["", "node", "node"]


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
    node.on("WatchEvents", *streams, hold())

    async with open_watch(client) as watch:
        found = await until(watch, lambda message: message.through == 8)

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
    node.on("WatchEvents", play(*sent, then=DRAINING), hold())

    async with open_watch(client) as watch:
        found = await until(watch, is_state(DOWN))

    assert real(found) == sent
    assert found[-1].state.reason.endswith(f"{DRAINING.message} (DRAINING)")
    assert node.endpoint in found[-1].state.reason
    assert found[-1].through == 200


async def test_an_unfinished_snapshot_is_not_resumed(node: FakeNode, client: NodeClient) -> None:
    """A stream that breaks before synced starts over."""
    script = Script()
    half = [script.reset(), script.namespace(), script.page(stored(1)), script.batch(stored(2))]
    node.on("WatchEvents", play(*half, then=BROKEN), hold(*Script().start(stored(5))))

    async with open_watch(client) as watch:
        found = await until(watch, is_state(LIVE))

    assert states(found) == [CONNECTING, SNAPSHOT, DOWN, SNAPSHOT, LIVE]
    assert [list(request.positions) for request in node.requests("WatchEvents")] == [[], []]


async def test_a_gap_is_a_broken_stream(node: FakeNode, client: NodeClient) -> None:
    """What lies behind a hole is not delivered; the hole is filled by resuming before it."""
    script = Script()
    sent = [*script.start(), script.batch(stored(1))]
    missed, behind = script.batch(stored(2)), script.batch(stored(3))
    node.on(
        "WatchEvents",
        hold(*sent, behind),
        hold(Script(through=1).synced(1), missed, behind),
    )

    async with open_watch(client) as watch:
        found = await until(watch, lambda message: message.through == 3)

    sequences = [batch.sequence for each in found for batch in each.batches.batches]
    assert sequences == [1, 2, 3]
    assert states(found) == [CONNECTING, SNAPSHOT, LIVE, SUSPECT, LIVE]
    reasons = [each.state.reason for each in found if each.state.source == SUSPECT]
    assert reasons == [f"{node.endpoint}: sequences 2 to 2 are missing"]
    assert watch.gaps == 1


async def test_a_repeated_message_is_not_delivered_twice(
    node: FakeNode, client: NodeClient
) -> None:
    """A node that repeats itself is resumed, not believed."""
    script = Script()
    batch = script.batch(stored(1))
    node.on("WatchEvents", hold(*Script().start(), batch, batch), hold(script.synced(1)))

    async with open_watch(client) as watch:
        found = await until(watch, lambda each: each.through == 1 and each.HasField("synced"))

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
        hold(*second.start(stored(3)), second.batch(stored(4))),
    )

    async with open_watch(client) as watch:
        found = await until(watch, lambda message: message.epoch == 8 and message.through == 1)

    (asked,) = node.requests("WatchEvents")[1].positions
    assert asked.position == Position(epoch=7, sequence=1)
    assert states(found) == [CONNECTING, SNAPSHOT, LIVE, DOWN, SNAPSHOT, LIVE]
