"""A merged stream that goes on where another one ended, and one that waits for its primary."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from kvtier.client import InvalidArgumentError, NodeClient, Quality, TieringProxy
from kvtier.v1.block_pb2 import Position
from kvtier.v1.event_service_pb2 import (
    NodePosition,
    SourceState,
    WatchEventsRequest,
    WatchEventsResponse,
)

from .fakes import FakeNode
from .indexing import keys
from .messages import Script, removed, stored
from .proxying import LIVE, events, quick, real, serving, settle, state_told, states

EPOCH = 7


class Log:
    """A node that held block 1, then stored 2 and removed 1, and resumes anywhere in that."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.node = FakeNode()
        self.node.on("WatchEvents", self._stream)

    async def _stream(self, request: WatchEventsRequest) -> AsyncIterator[WatchEventsResponse]:
        positions = {each.node_id: each.position.sequence for each in request.positions}
        for message in self._from(positions.get(self.name)):
            yield message
        await asyncio.Event().wait()

    def _from(self, sequence: int | None) -> list[WatchEventsResponse]:
        if sequence is None:
            return Script(self.name, EPOCH, through=2).start(stored(2))
        script = Script(self.name, EPOCH, through=0)
        batches = [script.batch(stored(2)), script.batch(removed(1))][sequence:]
        held = Script(self.name, EPOCH, through=sequence)
        return [held.synced(2 if sequence == 1 else 1), held.namespace(), *batches]


@asynccontextmanager
async def resumed(positions: Sequence[NodePosition]) -> AsyncIterator[TieringProxy]:
    async with AsyncExitStack() as stack:
        clients = []
        for log in (Log("p"), Log("s")):
            await stack.enter_async_context(log.node)
            clients.append(await stack.enter_async_context(NodeClient(log.node.endpoint)))
        proxy = TieringProxy(clients[0], clients[1:], positions=positions, watch=quick)
        yield await stack.enter_async_context(proxy)


def at(**sequences: int) -> list[NodePosition]:
    return [
        NodePosition(node_id=node_id, position=Position(epoch=EPOCH, sequence=sequence))
        for node_id, sequence in sequences.items()
    ]


def told(messages: Sequence[WatchEventsResponse], node_id: str) -> list[tuple[str | None, int]]:
    return [
        (message.WhichOneof("kind"), message.through)
        for message in real(messages)
        if message.node_id == node_id and message.WhichOneof("kind") != "namespace"
    ]


async def test_a_merged_stream_goes_on_where_the_positions_say() -> None:
    """Each source goes on behind its own position; nothing comes again and nothing is missing."""
    async with resumed(at(p=1, s=0)) as proxy:
        found = await events(proxy, 7)

        assert told(found, "p") == [("synced", 1), ("batches", 2)]
        assert told(found, "s") == [("synced", 0), ("batches", 1), ("batches", 2)]
        assert {p.node_id: p.position.sequence for p in proxy.positions} == {"p": 2, "s": 2}
        assert {node for node, _ in states(found)} <= {"", "p", "s"}


async def test_a_node_that_moved_is_not_resumed_from_where_the_reader_began() -> None:
    """The reader was told REMOVED since: by the other address it is told everything anew."""
    async with resumed(at(p=1, s=0)) as proxy:
        await events(proxy, 7)
        await proxy.members.remove(proxy.members.secondaries[0])
        moved = Log("s")
        async with moved.node, NodeClient(moved.node.endpoint) as client:
            await proxy.members.add(client)
            found = await state_told(proxy, "s", LIVE)

        assert told(found, "s") == [("reset", 2), ("snapshot", 2), ("synced", 2)]


async def test_the_mirror_of_a_resumed_secondary_is_whole_all_the_same() -> None:
    """It begins with a snapshot of its own, of which the reader sees nothing."""
    async with resumed(at(p=2, s=2)) as proxy:
        await settle(lambda: proxy.index.quality("s") is Quality.EXACT)
        found = await events(proxy, 4)

        assert proxy.index.blocks("s", "cpu0") == keys(2)
        assert told(found, "s") == [("synced", 2)]
        assert proxy.index.bad_events == 0


async def test_a_source_without_a_position_starts_over() -> None:
    """Only the source that is named goes on; the other one brings a reset and a snapshot."""
    async with resumed(at(p=2)) as proxy:
        found = await events(proxy, 6)

        assert told(found, "p") == [("synced", 2)]
        assert [kind for kind, _ in told(found, "s")] == ["reset", "snapshot", "synced"]


async def test_nothing_of_the_secondaries_comes_before_a_required_primary_is_live() -> None:
    """They wait, and nothing of theirs is lost; once the primary is in sync they follow it."""
    async with serving("p", "s1", require_primary=True) as (proxy, (primary, secondary)):
        secondary.say(*secondary.script.start(stored(1)))
        await settle(lambda: proxy.index.quality("s1") is Quality.EXACT)
        early = proxy.take_events()
        primary.say(*primary.script.start())
        found = early + await state_told(proxy, "s1", LIVE)

    assert {message.node_id for message in early} <= {"", "p"}
    order = [message.node_id for message in real(found)]
    assert order == ["p"] * 4 + ["s1"] * 4


async def test_watching_with_a_required_primary_waits_without_spinning() -> None:
    """A round that may bring nothing is not begun again and again while the secondary waits."""
    async with serving("p", "s1", require_primary=True) as (proxy, (primary, secondary)):
        secondary.say(*secondary.script.start(stored(1)))
        await settle(lambda: proxy.index.quality("s1") is Quality.EXACT)
        seen: list[str] = []

        async def read() -> None:
            async for message in proxy.watch():
                seen.append(message.node_id)  # noqa: PERF401 - the stream has no end

        reading = asyncio.create_task(read())
        await asyncio.sleep(0.05)
        before = list(seen)
        primary.say(*primary.script.start())
        await settle(lambda: seen.count("s1") >= 4)
        reading.cancel()

    assert "s1" not in before
    assert seen.index("s1") > seen.index("p")


async def test_secondaries_are_not_asked_anew_while_a_required_primary_is_missing() -> None:
    """What does not fit is given up once; the mirror goes on, and the reader gets a reset later."""
    options = {"require_primary": True, "buffer_bytes": 2000, "patience": 0.02}
    async with serving("p", "s1", **options) as (proxy, (primary, secondary)):
        secondary.say(*secondary.script.start())
        for number in range(50):
            secondary.say(secondary.script.batch(stored(number)))
            await asyncio.sleep(0.005)
            assert not real(proxy.take_events())
        await settle(lambda: proxy.index.count("s1", "cpu0") == 50)
        asked = len(secondary.followers)

        primary.say(*primary.script.start())
        await settle(lambda: "p" in {each.node_id for each in real(proxy.take_events())})
        await settle(lambda: not proxy.take_events() and len(secondary.followers) == 2)
        secondary.say(*secondary.script.start(stored(1)))
        found = await state_told(proxy, "s1", LIVE)

    assert asked == 1
    assert [kind for kind, _ in told(found, "s1")] == ["reset", "snapshot", "synced"]


async def test_a_required_primary_that_starts_over_is_not_live_until_it_is_in_sync() -> None:
    """When its messages were dropped, nothing of the secondaries comes before its snapshot."""
    options = {"require_primary": True, "buffer_bytes": 2000, "patience": 0.02}
    async with serving("p", "s1", **options) as (proxy, (primary, secondary)):
        primary.say(*primary.script.start())
        secondary.say(*secondary.script.start())
        await state_told(proxy, "s1", LIVE)
        primary.say(*(primary.script.batch(stored(number)) for number in range(50)))
        await settle(
            lambda: len(primary.followers) == 1 and proxy.members.primary.reader.buffer.abandoned
        )
        secondary.say(secondary.script.batch(stored(7)))
        await asyncio.sleep(0.05)

        early = proxy.take_events()
        await settle(lambda: len(primary.followers) == 2)
        primary.say(*primary.script.start(stored(*range(50))))
        late = await events(proxy, 5)

    assert states(early) == [("p", SourceState.SOURCE_STATE_CONNECTING)]
    assert [each.node_id for each in real(early) + real(late)] == ["p"] * 4 + ["s1"]


async def test_a_position_that_is_left_out_is_no_position() -> None:
    """A node may be named without one, as in a request to a node: it starts over."""
    async with resumed([NodePosition(node_id="p"), *at(s=2)]) as proxy:
        found = await events(proxy, 6)

        assert [kind for kind, _ in told(found, "p")] == ["reset", "snapshot", "synced"]
        assert told(found, "s") == [("synced", 2)]


@pytest.mark.parametrize("wrong", [{"quota": 0}, {"buffer_bytes": 0}, {"patience": -1.0}])
async def test_settings_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    """The error names the setting."""
    async with NodeClient("127.0.0.1:1") as client:
        with pytest.raises(InvalidArgumentError, match=next(iter(wrong))):
            TieringProxy(client, [], **wrong)


async def test_what_is_known_of_each_source_can_be_asked() -> None:
    """Endpoint, node and state of the primary and of each secondary, in order."""
    async with serving("p", "s1") as (proxy, sources):
        sources[0].say(*sources[0].script.start())
        await settle(lambda: proxy.sources[0].state == LIVE)

        first, second = proxy.sources

    assert (first.endpoint, first.node_id) == (sources[0].node.endpoint, "p")
    assert (second.node_id, second.state) != ("s1", LIVE)
