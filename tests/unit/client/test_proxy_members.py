"""Secondaries that join a running proxy and leave it, and endpoints that carry several nodes."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from kvtier.client import InvalidArgumentError, KvtierError, NodeClient, Quality, TieringProxy
from kvtier.client.proxy.following.members import Member
from kvtier.client.proxy.membership import static
from kvtier.client.stream import source_state
from kvtier.v1.event_service_pb2 import Sources, SourceState, WatchEventsResponse

from .indexing import keys
from .messages import FINGERPRINT, Script, block_set, stored
from .proxying import (
    DOWN,
    HIT,
    LIVE,
    MISS,
    Source,
    answer,
    events,
    real,
    serving,
    settle,
    state_told,
    states,
    synced,
)

REMOVED = SourceState.SOURCE_STATE_REMOVED


def naming(*node_ids: str) -> WatchEventsResponse:
    return WatchEventsResponse(sources=Sources(node_ids=node_ids))


async def test_a_secondary_that_joins_is_followed_behind_the_others() -> None:
    """Its events come after theirs, and lookups know what it has."""
    async with serving("p", "s1") as (proxy, (primary, first)):
        await synced(proxy, (primary, first), [], [1])
        second = Source("s2")
        async with second.node, NodeClient(second.node.endpoint) as client:
            await proxy.members.add(client)
            second.say(*second.script.start(stored(2)))
            await state_told(proxy, "s2", LIVE)
            second.say(second.script.batch(stored(3)))
            first.say(first.script.batch(stored(4)))
            await settle(lambda: proxy.index.count("s2", "cpu0") == 2)
            await settle(lambda: proxy.index.count("s1", "cpu0") == 2)
            found = proxy.take_events()

            primary.node.on("LookupBlocks", answer(MISS, MISS, MISS))
            (looked,) = await proxy.lookup(FINGERPRINT, [block_set(1, 2, 9)])

    assert [each.node_id for each in real(found)] == ["s1", "s2"]
    assert looked.results == (HIT, HIT, MISS)
    assert looked.sources == (1, 2, None)
    assert looked.endpoints[2] == second.node.endpoint


async def test_nothing_of_a_removed_secondary_is_left_or_comes_again() -> None:
    """However much of it is under way; a reader is told REMOVED, and nothing after that."""
    async with serving("p", "s1", "s2") as (proxy, (primary, gone, other)):
        await synced(proxy, (primary, gone, other), [], [1], [2])
        gone.say(*(gone.script.batch(stored(number)) for number in range(10, 2000)))
        await settle(lambda: proxy.index.count("s1", "cpu0") > 1)

        await proxy.members.remove(proxy.members.secondaries[0])

        assert sorted(proxy.index.nodes()) == ["p", "s2"]
        other.say(other.script.batch(stored(3)))
        found = await events(proxy, 1)
        assert sorted(proxy.index.nodes()) == ["p", "s2"]
        assert states(found) == [("s1", REMOVED)]
        assert {each.node_id for each in real(found)} == {"s2"}
        assert sorted(each.node_id for each in proxy.positions) == ["p", "s2"]
        assert [each.node_id for each in proxy.sources] == ["p", "s2"]


class StillManager:
    """One that is told of a secondary that leaves, and does not come to an end with it."""

    def __init__(self) -> None:
        self.told = asyncio.Event()

    def hear(self, message: WatchEventsResponse) -> None:
        pass

    async def leave(self, member: Member) -> None:
        self.told.set()
        await asyncio.Event().wait()


async def test_a_removal_that_is_given_up_leaves_nothing_behind() -> None:
    """Whoever asked for it is cancelled: the secondary is gone, and nothing follows it."""
    async with serving("p", "s1") as (proxy, (primary, secondary)):
        await synced(proxy, (primary, secondary), [], [1])
        (member,) = proxy.members.secondaries
        manager = StillManager()
        proxy.members.tell(manager)
        removing = asyncio.create_task(proxy.members.remove(member))
        await manager.told.wait()

        removing.cancel()
        await asyncio.gather(removing, return_exceptions=True)
        found = proxy.take_events()

        assert states(found) == [("s1", REMOVED)]
        assert proxy.index.nodes() == ["p"]
        assert feeds_at_work() == 1
    assert feeds_at_work() == 0


def feeds_at_work() -> int:
    names = [getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks()]
    return names.count("Feed.run")


async def test_a_secondary_that_was_removed_may_join_again() -> None:
    """It starts with a reset; what it holds counts from its snapshot on."""
    async with serving("p", "s1") as (proxy, (primary, secondary)):
        await synced(proxy, (primary, secondary), [], [1])
        await proxy.members.remove(proxy.members.secondaries[0])

        again = Source("s1")
        async with again.node, NodeClient(again.node.endpoint) as client:
            await proxy.members.add(client)
            again.say(*again.script.start(stored(1, 2)))
            await state_told(proxy, "s1", LIVE)

            assert proxy.index.blocks("s1", "cpu0") == keys(1, 2)
            assert proxy.index.quality("s1") is Quality.EXACT


async def test_an_address_is_followed_once_and_the_primary_stays() -> None:
    """Both are told to who asks for it."""
    async with serving("p", "s1") as (proxy, (_, secondary)):
        async with NodeClient(secondary.node.endpoint) as again:
            with pytest.raises(InvalidArgumentError, match="followed already"):
                await proxy.members.add(again)
        with pytest.raises(InvalidArgumentError, match="make another proxy"):
            await proxy.members.remove(proxy.members.primary)


async def test_an_endpoint_that_names_its_nodes_carries_all_of_them() -> None:
    """Each has a state and a view of its own; one that it names no more is REMOVED."""
    async with serving("p", "a") as (proxy, (primary, relay)):
        primary.say(*primary.script.start())
        one, two = Script("a"), Script("b", epoch=7)
        relay.say(naming("a", "b"), *one.start(stored(1)), *two.start(stored(2, 3)))
        await state_told(proxy, "b", LIVE)
        assert [each.node_id for each in proxy.sources] == ["p", "a", "b"]
        assert proxy.index.blocks("a", "cpu0") == keys(1)
        assert proxy.index.blocks("b", "cpu0") == keys(2, 3)

        primary.node.on("LookupBlocks", answer(MISS, MISS))
        (looked,) = await proxy.lookup(FINGERPRINT, [block_set(2, 1)])
        relay.say(naming("b"), two.batch(stored(4)))
        found = await events(proxy, 1)

        assert looked.results == (HIT, HIT)
        assert looked.sources == (1, 1)
        assert looked.prefix_lengths == (0, 1), "nothing is stitched together over nodes"
        assert ("a", REMOVED) in states(found)
        assert sorted(proxy.index.nodes()) == ["b", "p"]
        assert proxy.index.blocks("b", "cpu0") == keys(2, 3, 4)


async def test_a_node_that_a_proxy_names_as_down_is_known_and_has_nothing() -> None:
    """Nothing was ever heard of it but its state, which makes no miss a retry."""
    async with serving("p", "a") as (proxy, (primary, relay)):
        primary.say(*primary.script.start())
        away = source_state("away", (0, 0), DOWN, "gone")
        relay.say(naming("a", "away"), *Script("a").start(stored(1)), away)
        await state_told(proxy, "away", DOWN)

        primary.node.on("LookupBlocks", answer(MISS, MISS))
        (looked,) = await proxy.lookup(FINGERPRINT, [block_set(1, 2)])

        assert looked.results == (HIT, MISS)


async def test_a_hint_is_answered_from_the_index_alone() -> None:
    """It tells how much is known of each source and at which position, and asks nobody."""
    async with serving("p", "s1") as (proxy, (primary, secondary)):
        await synced(proxy, (primary, secondary), [1], [2])

        (looked,) = await proxy.lookup(FINGERPRINT, [block_set(1, 2, 3)], hint=True)

        assert looked.results == (HIT, HIT, MISS)
        assert looked.sources == (0, 1, None)
        assert looked.prefix_lengths == (1, 0)
        assert [each.quality for each in looked.bases] == [Quality.EXACT, Quality.EXACT]
        assert looked.bases[0].position == proxy.index.position("p")
        assert primary.node.requests("LookupBlocks") == []


async def test_the_secondaries_are_those_that_the_last_list_names() -> None:
    """They join and leave in its order; the primary is none of them; clients end with the proxy."""
    lists: asyncio.Queue[tuple[str, ...]] = asyncio.Queue()

    async def membership() -> AsyncIterator[tuple[str, ...]]:
        while True:
            yield await lists.get()

    one, two = Source("one"), Source("two")
    async with serving("p", membership=membership()) as (proxy, (primary,)), one.node, two.node:
        first, second, own = (each.node.endpoint for each in (one, two, primary))
        lists.put_nowait((first, own))
        await settle(lambda: [each.endpoint for each in proxy.members] == [own, first])
        lists.put_nowait((second, first))
        await settle(lambda: [each.endpoint for each in proxy.members] == [own, second, first])
        one.say(*one.script.start(stored(1)))
        two.say(*two.script.start(stored(1)))
        await settle(lambda: sorted(proxy.index.nodes()) == ["one", "two"])
        lists.put_nowait((second,))
        await settle(lambda: proxy.index.nodes() == ["two"])

        gone = proxy.members.find("one")
        (left,) = proxy.members.secondaries

    assert gone is None
    with pytest.raises(KvtierError):
        await left.client.get_node()


async def test_secondaries_are_given_in_one_way(client: NodeClient) -> None:
    """A fixed list and one that changes exclude each other."""
    with pytest.raises(InvalidArgumentError, match="give one"):
        TieringProxy(client, [client], membership=static([]))
