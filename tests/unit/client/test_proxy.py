"""The merged stream of a primary and its secondaries."""

import asyncio

import pytest

from kvtier.client import (
    InvalidArgumentError,
    NodeClient,
    TieringProxy,
)
from kvtier.v1.event_service_pb2 import (
    WatchEventsResponse,
)

from .messages import cleared, removed, stored
from .proxying import (
    events,
    real,
    serving,
    synced,
)


async def test_events_come_primary_first_then_secondaries_in_order() -> None:
    """Whoever was faster, one take brings P, then S1, then S2, each as it was sent."""
    async with serving("p", "s1", "s2") as (proxy, sources):
        await synced(proxy, sources, [], [], [])
        arrived = []
        for source in reversed(sources):
            arrived += [source.script.batch(stored(1)), source.script.batch(removed(1))]
            source.say(*arrived[-2:])
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.1)

        taken = proxy.take_events()

    assert taken == [*arrived[4:], *arrived[2:4], *arrived[:2]]


async def test_nothing_is_made_up_changed_or_lost() -> None:
    """Over all takes, each node's messages are exactly those that it sent, in order."""
    async with serving("p", "s1") as (proxy, sources):
        await synced(proxy, sources, [1], [1, 2])
        for number in range(300):
            for source in sources:
                event = cleared() if number % 50 == 0 else stored(number)
                source.say(source.script.batch(event))
        found = await events(proxy, 600)
        for source in sources:
            sent = source.sent[4:]
            assert [each for each in real(found) if each.node_id == source.script.node_id] == sent


async def test_rounds_bring_all_of_the_primary_and_a_quota_of_each_secondary() -> None:
    """A secondary with much to say holds up neither the primary nor the other one."""
    async with serving("p", "s1", "s2", quota=2) as (proxy, sources):
        await synced(proxy, sources, [], [], [])
        for source, count in zip(sources, (3, 5, 1), strict=True):
            source.say(*(source.script.batch(stored(number)) for number in range(count)))
        await asyncio.sleep(0.2)

        order = []
        async with asyncio.timeout(10):
            async for message in proxy.watch():
                order.append((message.node_id, message.through))
                if len(order) == 9:
                    break

    assert order == [
        ("p", 1),
        ("p", 2),
        ("p", 3),
        ("s1", 1),
        ("s1", 2),
        ("s2", 1),
        ("s1", 3),
        ("s1", 4),
        ("s1", 5),
    ]


async def test_a_watch_that_is_left_and_taken_up_again_loses_nothing() -> None:
    """What a broken-off round had not handed out comes next."""
    async with serving("p", "s1") as (proxy, sources):
        await synced(proxy, sources, [], [])
        for source in sources:
            source.say(*(source.script.batch(stored(number)) for number in range(20)))
        found: list[WatchEventsResponse] = []
        async with asyncio.timeout(10):
            while len(found) < 40:
                async for message in proxy.watch():
                    found.append(message)
                    if len(found) % 3 == 0 or len(found) == 40:
                        break

    for source in sources:
        mine = [each for each in found if each.node_id == source.script.node_id]
        assert [each.through for each in mine] == list(range(1, 21))


async def test_closing_the_proxy_ends_its_watch() -> None:
    """A reader that waits is let go."""
    async with serving("p") as (proxy, sources):
        await synced(proxy, sources, [])

        async def read() -> list[WatchEventsResponse]:
            return [message async for message in proxy.watch()]

        reading = asyncio.create_task(read())
        await asyncio.sleep(0.05)
        await proxy.close()
        await proxy.close()

        async with asyncio.timeout(5):
            assert await reading == []


async def test_closing_leaves_nothing_running() -> None:
    """All watches and readers of a proxy end with it."""
    before = asyncio.all_tasks()
    async with serving("p", "s1") as (proxy, sources):
        await synced(proxy, sources, [], [])

    await asyncio.sleep(0.1)

    names = {str(task.get_coro()) for task in asyncio.all_tasks() - before}
    assert not [name for name in names if "kvtier" in name or "Feed" in name or "Watch" in name]


@pytest.mark.parametrize("quota", [0, -1])
async def test_a_quota_is_positive(client: NodeClient, quota: int) -> None:
    """A quota that would starve every secondary is refused."""
    with pytest.raises(InvalidArgumentError, match="quota must be at least 1"):
        TieringProxy(client, [], quota=quota)
