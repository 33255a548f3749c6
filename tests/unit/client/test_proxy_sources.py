"""Sources of a proxy that die, change or are not read."""

import asyncio

import pytest

from kvtier.client import (
    NodeClient,
    TieringProxy,
    Watch,
)
from kvtier.v1.event_service_pb2 import (
    ResetReason,
    WatchEventsResponse,
)
from kvtier.wire.errors import Reason, not_found

from .fakes import FakeNode
from .messages import FINGERPRINT, Script, block_set, hash_of, stored
from .proxying import (
    DOWN,
    HIT,
    MISS,
    Source,
    answer,
    events,
    quick,
    real,
    serving,
    settle,
    state_told,
    states,
    synced,
    until,
)


async def test_a_dead_secondary_is_a_state_and_no_event() -> None:
    """Its blocks are not announced as removed; the others go on, and it comes back by itself."""
    async with serving("p", "s1", "s2") as (proxy, sources):
        primary, dead, other = sources
        await synced(proxy, sources, [1], [2], [3])

        await dead.node.stop()
        primary.say(primary.script.batch(stored(4)))
        other.say(other.script.batch(stored(5)))
        found = await until(
            proxy, lambda found: len(real(found)) == 2 and ("s1", DOWN) in states(found)
        )

    assert real(found) == [primary.sent[-1], other.sent[-1]]
    assert [node for node, _ in states(found)] == ["s1"]
    reasons = [each.state.reason for each in found if each.state.source == DOWN]
    assert len(reasons) == 1
    assert dead.node.endpoint in reasons[0]


async def test_a_secondary_that_was_never_there_holds_nothing_up() -> None:
    """The proxy starts, hands on the primary's events and tells the state of the other."""
    async with FakeNode() as gone:
        endpoint = gone.endpoint
    source = Source("p")
    async with (
        source.node,
        NodeClient(source.node.endpoint) as primary,
        NodeClient(endpoint) as missing,
        TieringProxy(primary, [missing], watch=quick) as proxy,
    ):
        source.say(*source.script.start(stored(1)))
        found = await until(
            proxy, lambda found: len(real(found)) == 4 and ("", DOWN) in states(found)
        )
        source.node.on("LookupBlocks", answer(MISS))

        (looked,) = await proxy.lookup(FINGERPRINT, [block_set(2)])

    assert real(found) == source.sent
    assert looked.results == (MISS,)


async def test_events_that_nobody_takes_are_dropped_and_the_reader_starts_over() -> None:
    """The buffer is bounded; the mirror goes on; coming back brings a reset and a snapshot."""
    async with serving("p", "s1", buffer_bytes=20_000, patience=0.05) as (proxy, sources):
        primary, secondary = sources
        await synced(proxy, sources, [], [])

        for number in range(200):
            secondary.say(secondary.script.batch(stored(number)))
        await settle(lambda: proxy.index.count("s1", "cpu0") == 200)
        assert len(secondary.followers) == 1

        found = proxy.take_events()
        await settle(lambda: len(secondary.followers) == 2)
        secondary.say(
            secondary.script.reset(ResetReason.RESET_REASON_NO_POSITION),
            secondary.script.page(stored(*range(200))),
            secondary.script.synced(200),
            secondary.script.batch(stored(999)),
        )
        primary.say(primary.script.batch(stored(1)))
        found += await events(proxy, 5)

        kinds = [each.WhichOneof("kind") for each in real(found) if each.node_id == "s1"]
        assert kinds == ["reset", "snapshot", "synced", "batches"]
        assert [list(each.positions) for each in secondary.followers] == [[], []]
        assert len(primary.followers) == 1
        assert proxy.index.count("s1", "cpu0") == 201


async def test_a_reader_that_comes_back_learns_that_a_node_is_down() -> None:
    """A state that was dropped with the events is told again."""
    async with serving("p", "s1", buffer_bytes=2_000, patience=0.05) as (proxy, sources):
        secondary = sources[1]
        await synced(proxy, sources, [], [])
        for number in range(20):
            secondary.say(secondary.script.batch(stored(number)))
        await settle(lambda: proxy.index.count("s1", "cpu0") == 20)
        await secondary.node.stop()
        await settle(lambda: proxy.index.quality("s1").name == "STALE")

        found = proxy.take_events()

        assert states(found) == [("s1", DOWN)]


async def test_a_slow_reader_is_waited_for() -> None:
    """A full buffer that is read within the patience loses nothing and starts nothing over."""
    async with serving("p", "s1", buffer_bytes=2_000, patience=30.0) as (proxy, sources):
        await synced(proxy, sources, [], [])
        for number in range(100):
            sources[1].say(sources[1].script.batch(stored(number)))

        found: list[WatchEventsResponse] = []
        async with asyncio.timeout(20):
            while len(found) < 100:
                await asyncio.sleep(0.01)
                found += proxy.take_events()

        assert [each.through for each in found] == list(range(1, 101))
        assert len(sources[1].followers) == 1


async def test_two_nodes_of_one_id_are_not_merged() -> None:
    """The second to say that it is the node is told apart by its address, and left out."""
    async with serving("p", "same", "same") as (proxy, (primary, one, two)):
        for source, numbers in ((primary, [9]), (one, [1])):
            source.say(*source.script.start(stored(*numbers)))
        await events(proxy, 8)
        two.say(*two.script.start(stored(2)), two.script.batch(stored(3)))

        found = await state_told(proxy, "", DOWN)

        reasons = [each.state.reason for each in found if each.state.source == DOWN]
        assert real(found) == []
        assert len(reasons) == 1
        assert one.node.endpoint in reasons[0]
        assert two.node.endpoint in reasons[0]
        assert {key.block_hash for key in proxy.index.blocks("same", "cpu0")} == {hash_of(1)}


async def test_another_node_at_an_address_takes_the_place_of_the_first() -> None:
    """Nothing of the node that was there before is left in the mirror."""
    async with serving("p", "old") as (proxy, (primary, secondary)):
        await synced(proxy, (primary, secondary), [], [1])
        secondary.fall_over()
        await settle(lambda: len(secondary.followers) == 2)

        secondary.script = Script("new", epoch=9)
        secondary.say(*secondary.script.start(stored(2)))
        await settle(lambda: proxy.index.count("new", "cpu0") == 1)

        assert sorted(proxy.index.nodes()) == ["new", "p"]


async def test_a_watch_that_cannot_go_on_is_a_node_that_is_down() -> None:
    """A refusal that trying again cannot help is told with its reason."""
    async with serving("p", "s1") as (proxy, (primary, secondary)):
        await synced(proxy, (primary, secondary), [], [1])
        secondary._queue.put_nowait(not_found("no tier gpu7", Reason.TIER_UNKNOWN))

        found = await state_told(proxy, "s1", DOWN)

        assert "no tier gpu7" in found[-1].state.reason


class _Failing(Watch):
    """A watch with a defect, which shows at the first batch."""

    def _take(self, message: WatchEventsResponse) -> str | None:
        if message.HasField("batches"):
            raise RuntimeError("a defect")
        return super()._take(message)


@pytest.mark.parametrize("name", ["p", "s1"])
async def test_a_source_that_cannot_be_followed_is_down(name: str) -> None:
    """Whatever ends a watch is told with its reason, and what was mirrored is trusted no more."""

    def watch(client: NodeClient) -> Watch:
        return _Failing(client, heartbeat_interval=600.0)

    async with serving("p", "s1", watch=watch) as (proxy, sources):
        await synced(proxy, sources, [], [1])
        failing = next(each for each in sources if each.script.node_id == name)

        failing.say(failing.script.batch(stored(2)))
        found = await state_told(proxy, name, DOWN)
        sources[0].node.on("LookupBlocks", answer(MISS))
        (looked,) = await proxy.lookup(FINGERPRINT, [block_set(1)])

        reason = found[-1].state.reason
        assert "RuntimeError: a defect" in reason
        assert failing.node.endpoint in reason
        assert looked.results == (MISS if name == "s1" else HIT,)
        assert proxy.index.quality("s1").name == ("STALE" if name == "s1" else "EXACT")


async def test_a_snapshot_larger_than_the_buffer_comes_through_beside_a_busy_primary() -> None:
    """Room is waited for as long as the reader takes anything: nothing is dropped or asked anew."""
    pages = 60
    async with serving("p", "s1", buffer_bytes=4000, patience=1.0) as (proxy, (primary, other)):
        primary.say(*primary.script.start())
        script = other.script
        other.say(script.reset(), script.namespace())
        other.say(*(script.page(stored(*range(p * 10, p * 10 + 10))) for p in range(pages)))
        other.say(script.synced(10 * pages))
        seen: list[str] = []

        async with asyncio.timeout(20):
            async for message in proxy.watch():
                primary.say(primary.script.batch(stored(len(seen))))
                seen.append(f"{message.node_id} {message.WhichOneof('kind')}")
                await asyncio.sleep(0.002)
                if seen[-1] == "s1 synced":
                    break

        assert seen.count("s1 snapshot") == pages
        assert seen.count("s1 reset") == len(other.followers) == 1
