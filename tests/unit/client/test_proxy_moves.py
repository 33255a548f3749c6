"""What a reader who takes late is told of nodes that left, came back or moved."""

import asyncio
from collections.abc import Sequence

from kvtier.client import BlockIndex, NodeClient, TieringProxy
from kvtier.v1.event_service_pb2 import Sources, SourceState, WatchEventsResponse

from .indexing import keys
from .messages import Script, stored
from .proxying import DOWN, Source, real, serving, settle, state_told, states, synced

REMOVED = SourceState.SOURCE_STATE_REMOVED


def folded(messages: Sequence[WatchEventsResponse]) -> BlockIndex:
    """Return the view of a reader who was told so."""
    index = BlockIndex()
    for message in messages:
        index.apply(message)
    return index


def kinds(messages: Sequence[WatchEventsResponse], node_id: str) -> list[str | None]:
    return [each.WhichOneof("kind") for each in real(messages) if each.node_id == node_id]


async def knows(proxy: TieringProxy, node_id: str, *numbers: int) -> None:
    """Wait until the proxy knows what a node holds, though nobody takes."""
    await settle(lambda: proxy.index.blocks(node_id, "cpu0") == keys(*numbers))


async def test_a_node_that_left_and_came_back_is_there() -> None:
    """Nobody took in between: that it was removed is not told after what it says now."""
    async with serving("p", "one", "two") as (proxy, (primary, gone, other)):
        await synced(proxy, (primary, gone, other), [], [1], [2])

        await proxy.members.remove(proxy.members.secondaries[0])
        again = Source("one")
        async with again.node, NodeClient(again.node.endpoint) as client:
            await proxy.members.add(client)
            again.say(*again.script.start(stored(1, 3)))
            await knows(proxy, "one", 1, 3)
            found = proxy.take_events()

        assert folded(found).blocks("one", "cpu0") == keys(1, 3)
        assert "one" in [each.node_id for each in proxy.positions]


async def test_a_node_that_moved_forward_is_told_from_its_new_address() -> None:
    """What lies in the buffer of the old one, which is taken from later, is not told after it."""
    async with serving("p", "two", "one") as (proxy, (primary, new, old)):
        await synced(proxy, (primary, new, old), [], [2], [1])
        old.say(old.script.batch(stored(7)))
        await knows(proxy, "one", 1, 7)
        old.fall_over()
        await settle(lambda: proxy.members.secondaries[1].state() == DOWN)

        new.fall_over()
        new.script = Script("one", epoch=9)
        new.say(*new.script.start(stored(3)))
        await knows(proxy, "one", 3)
        found = proxy.take_events()

        assert kinds(found, "one") == ["reset", "namespace", "snapshot", "synced"]
        assert folded(found).blocks("one", "cpu0") == keys(3)


async def test_a_node_that_leaves_while_nobody_takes_is_told_removed() -> None:
    """The reader had given up its buffer; a reader who comes back does not believe in it."""
    async with serving("p", "one", buffer_bytes=1, patience=0.5) as (proxy, (primary, relay)):
        one, two = Script("one"), Script("two", epoch=7)
        primary.say(*primary.script.start())
        naming = WatchEventsResponse(sources=Sources(node_ids=["one", "two"]))
        relay.say(naming, *one.start(stored(1)), *two.start(stored(2)))
        await state_told(proxy, "two", SourceState.SOURCE_STATE_LIVE)
        relay.say(two.batch(stored(3)), two.batch(stored(4)))
        await settle(lambda: proxy.members.secondaries[0].reader.buffer.abandoned)

        relay.say(WatchEventsResponse(sources=Sources(node_ids=["two"])))
        await settle(lambda: "one" not in proxy.index.nodes())
        found = proxy.take_events()

        assert ("one", REMOVED) in states(found)
        assert "one" not in [each.node_id for each in proxy.positions]


async def test_a_secondary_that_leaves_while_another_joins_is_told_removed() -> None:
    """Whatever order their ends and beginnings come in."""
    async with serving("p", "one") as (proxy, (primary, gone)):
        await synced(proxy, (primary, gone), [], [1])
        other = Source("two")
        async with other.node, NodeClient(other.node.endpoint) as client:
            leaving = asyncio.create_task(proxy.members.remove(proxy.members.secondaries[0]))
            await asyncio.sleep(0)
            await proxy.members.add(client)
            found = proxy.take_events()
            await leaving
            found += proxy.take_events()

        assert ("one", REMOVED) in states(found)
