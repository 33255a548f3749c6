"""A primary and its secondaries, seen as one."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from kvtier.client import (
    Backoff,
    InvalidArgumentError,
    KvtierError,
    NodeClient,
    TieringProxy,
    UnavailableError,
    Watch,
)
from kvtier.v1.event_service_pb2 import (
    ResetReason,
    SourceState,
    WatchEventsRequest,
    WatchEventsResponse,
)
from kvtier.v1.result_pb2 import ChainLookup, LookupResult
from kvtier.v1.tier_service_pb2 import LookupBlocksResponse, TouchBlocksResponse
from kvtier.wire.errors import Reason, not_found, unavailable

from .fakes import FakeNode, fail
from .messages import FINGERPRINT, Script, block_set, cleared, hash_of, removed, stored

HIT = LookupResult.LOOKUP_RESULT_HIT
MISS = LookupResult.LOOKUP_RESULT_MISS
RETRY = LookupResult.LOOKUP_RESULT_RETRY
DOWN = SourceState.SOURCE_STATE_DOWN
SUSPECT = SourceState.SOURCE_STATE_SUSPECT
LIVE = SourceState.SOURCE_STATE_LIVE


class Source:
    """A node whose stream a test writes as it goes.

    Attributes:
        node: The server.
        script: Writes the node's messages.
        sent: What was sent, over all streams.
    """

    def __init__(self, name: str) -> None:
        self.node = FakeNode()
        self.script = Script(name)
        self.sent: list[WatchEventsResponse] = []
        self._queue: asyncio.Queue[WatchEventsResponse | KvtierError] = asyncio.Queue()
        self.node.on("WatchEvents", self._stream)

    def say(self, *messages: WatchEventsResponse) -> None:
        """Send messages to the follower."""
        for message in messages:
            self._queue.put_nowait(message)

    def fall_over(self) -> None:
        """End the stream as a node does that dies."""
        self._queue.put_nowait(unavailable("gone", Reason.INTERNAL))

    @property
    def followers(self) -> list[WatchEventsRequest]:
        return self.node.requests("WatchEvents")

    async def _stream(self, request: WatchEventsRequest) -> AsyncIterator[WatchEventsResponse]:
        while True:
            message = await self._queue.get()
            if isinstance(message, KvtierError):
                raise message
            self.sent.append(message)
            yield message


def _quick(client: NodeClient) -> Watch:
    return Watch(client, heartbeat_interval=600.0, backoff=Backoff(base=0.001, cap=0.01))


@asynccontextmanager
async def _serving(
    *names: str, **options: Any
) -> AsyncIterator[tuple[TieringProxy, Sequence[Source]]]:
    """Serve sources, the primary first, and a proxy over them."""
    async with AsyncExitStack() as stack:
        sources = [Source(name) for name in names]
        clients = []
        for source in sources:
            await stack.enter_async_context(source.node)
            clients.append(
                await stack.enter_async_context(NodeClient(source.node.endpoint, timeout=2.0))
            )
        proxy = TieringProxy(clients[0], clients[1:], **{"watch": _quick, **options})
        await stack.enter_async_context(proxy)
        yield proxy, sources


async def _settle(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - what it waits for has no event
            await asyncio.sleep(0.005)


def _real(messages: Sequence[WatchEventsResponse]) -> list[WatchEventsResponse]:
    return [each for each in messages if not each.state.source]


def _states(messages: Sequence[WatchEventsResponse]) -> list[tuple[str, SourceState.ValueType]]:
    return [(each.node_id, each.state.source) for each in messages if each.state.source]


async def _until(
    proxy: TieringProxy, condition: Callable[[list[WatchEventsResponse]], bool]
) -> list[WatchEventsResponse]:
    """Return what take_events() brings until that is enough."""
    found: list[WatchEventsResponse] = []
    async with asyncio.timeout(10):
        while not condition(found):
            await asyncio.sleep(0.005)
            found += proxy.take_events()
    return found


async def _events(proxy: TieringProxy, count: int) -> list[WatchEventsResponse]:
    """Return what take_events() brings until there are so many messages of the nodes' own."""
    return await _until(proxy, lambda found: len(_real(found)) >= count)


async def _state(
    proxy: TieringProxy, node_id: str, state: SourceState.ValueType
) -> list[WatchEventsResponse]:
    """Return what take_events() brings until it tells the state of a node."""
    return await _until(proxy, lambda found: (node_id, state) in _states(found))


async def _synced(proxy: TieringProxy, sources: Sequence[Source], *contents: Sequence[int]) -> None:
    """Let every source say what it holds, and take that."""
    for source, numbers in zip(sources, contents, strict=True):
        source.say(*source.script.start(*([stored(*numbers)] if numbers else [])))
    await _until(
        proxy, lambda found: [state for _, state in _states(found)].count(LIVE) == len(sources)
    )


def _answer(*results: LookupResult.ValueType) -> Callable[[Any], LookupBlocksResponse]:
    length = next((i for i, each in enumerate(results) if each != HIT), len(results))
    chain = ChainLookup(results=results, union_prefix_length=length)
    return lambda _: LookupBlocksResponse(tiers=["cpu0"], chains=[chain])


def _touched(tiers: Sequence[str]) -> Callable[[Any], TouchBlocksResponse]:
    return lambda _: TouchBlocksResponse(tiers=tiers)


async def test_events_come_primary_first_then_secondaries_in_order() -> None:
    """Whoever was faster, one take brings P, then S1, then S2, each as it was sent."""
    async with _serving("p", "s1", "s2") as (proxy, sources):
        await _synced(proxy, sources, [], [], [])
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
    async with _serving("p", "s1") as (proxy, sources):
        await _synced(proxy, sources, [1], [1, 2])
        for number in range(300):
            for source in sources:
                event = cleared() if number % 50 == 0 else stored(number)
                source.say(source.script.batch(event))
        found = await _events(proxy, 600)
        for source in sources:
            sent = source.sent[4:]
            assert [each for each in _real(found) if each.node_id == source.script.node_id] == sent


async def test_rounds_bring_all_of_the_primary_and_a_quota_of_each_secondary() -> None:
    """A secondary with much to say holds up neither the primary nor the other one."""
    async with _serving("p", "s1", "s2", quota=2) as (proxy, sources):
        await _synced(proxy, sources, [], [], [])
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
    async with _serving("p", "s1") as (proxy, sources):
        await _synced(proxy, sources, [], [])
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
    async with _serving("p") as (proxy, sources):
        await _synced(proxy, sources, [])

        async def read() -> list[WatchEventsResponse]:
            return [message async for message in proxy.watch()]

        reading = asyncio.create_task(read())
        await asyncio.sleep(0.05)
        await proxy.close()
        await proxy.close()

        async with asyncio.timeout(5):
            assert await reading == []


async def test_a_dead_secondary_is_a_state_and_no_event() -> None:
    """Its blocks are not announced as removed; the others go on, and it comes back by itself."""
    async with _serving("p", "s1", "s2") as (proxy, sources):
        primary, dead, other = sources
        await _synced(proxy, sources, [1], [2], [3])

        await dead.node.stop()
        primary.say(primary.script.batch(stored(4)))
        other.say(other.script.batch(stored(5)))
        found = await _until(
            proxy, lambda found: len(_real(found)) == 2 and ("s1", DOWN) in _states(found)
        )

    assert _real(found) == [primary.sent[-1], other.sent[-1]]
    assert [node for node, _ in _states(found)] == ["s1"]
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
        TieringProxy(primary, [missing], watch=_quick) as proxy,
    ):
        source.say(*source.script.start(stored(1)))
        found = await _until(
            proxy, lambda found: len(_real(found)) == 4 and ("", DOWN) in _states(found)
        )
        source.node.on("LookupBlocks", _answer(MISS))

        (looked,) = await proxy.lookup(FINGERPRINT, [block_set(2)])

    assert _real(found) == source.sent
    assert looked.results == (MISS,)


async def test_a_lookup_asks_the_primary_and_reads_the_mirrors() -> None:
    """One call, to the primary; the first source that has a block wins."""
    async with _serving("p", "s1", "s2") as (proxy, sources):
        await _synced(proxy, sources, [1], [1, 2], [2, 3])
        sources[0].node.on("LookupBlocks", _answer(HIT, MISS, MISS, MISS))

        (found,) = await proxy.lookup(FINGERPRINT, [block_set(1, 2, 3, 4)])

        assert found.results == (HIT, HIT, HIT, MISS)
        assert found.sources == (0, 1, 2, None)
        assert found.prefix_lengths == (1, 2, 0)
        assert found.longest == (1, 2)
        assert sources[0].node.names().count("LookupBlocks") == 1
        assert all("LookupBlocks" not in each.node.names() for each in sources[1:])


async def test_a_lookup_follows_what_the_secondaries_say() -> None:
    """A store is found and a removal is not, as soon as the event arrived."""
    async with _serving("p", "s1") as (proxy, (primary, secondary)):
        await _synced(proxy, (primary, secondary), [], [1])
        primary.node.on("LookupBlocks", _answer(MISS, MISS))

        secondary.say(secondary.script.batch(removed(1), stored(2)))
        await _events(proxy, 1)
        (found,) = await proxy.lookup(FINGERPRINT, [block_set(1, 2)])

    assert found.results == (MISS, HIT)


async def test_many_chains_are_one_call() -> None:
    """Each chain has its own answer, with its own group and scope."""
    async with _serving("p", "s1") as (proxy, (primary, secondary)):
        await _synced(proxy, (primary, secondary), [], [])
        secondary.say(secondary.script.batch(stored(1), stored(1, group=1), stored(2, group=1)))
        await _events(proxy, 1)
        chains = [ChainLookup(results=[MISS]), ChainLookup(results=[MISS, MISS])]
        primary.node.on("LookupBlocks", lambda _: LookupBlocksResponse(chains=chains))

        found = await proxy.lookup(FINGERPRINT, [block_set(1), block_set(1, 2, group=1)])

        assert [each.results for each in found] == [(HIT,), (HIT, HIT)]
        assert [each.prefix_lengths for each in found] == [(0, 1), (0, 2)]
        assert primary.node.names().count("LookupBlocks") == 1


async def test_a_mirror_that_is_being_filled_makes_a_miss_a_retry() -> None:
    """Until synced a block may be there; a hit elsewhere is a hit all the same."""
    async with _serving("p", "s1", "s2") as (proxy, (primary, filling, other)):
        for source, numbers in ((primary, [1]), (other, [2])):
            source.say(*source.script.start(stored(*numbers)))
        filling.say(
            filling.script.reset(), filling.script.namespace(), filling.script.page(stored(3))
        )
        await _events(proxy, 11)
        primary.node.on("LookupBlocks", _answer(HIT, MISS, MISS, MISS))

        (before,) = await proxy.lookup(FINGERPRINT, [block_set(1, 2, 3, 4)])
        filling.say(filling.script.synced(1))
        await _events(proxy, 1)
        (after,) = await proxy.lookup(FINGERPRINT, [block_set(1, 2, 3, 4)])

    assert before.results == (HIT, HIT, RETRY, RETRY)
    assert before.prefix_lengths == (1, None, 0)
    assert after.results == (HIT, HIT, HIT, MISS)


async def test_a_secondary_that_is_suspect_is_asked_about_again() -> None:
    """A gap makes its misses and its hits uncertain until it has resumed."""
    async with _serving("p", "s1") as (proxy, (primary, secondary)):
        await _synced(proxy, (primary, secondary), [], [1])
        primary.node.on("LookupBlocks", _answer(MISS))

        secondary.script.batch(stored(2))
        secondary.say(secondary.script.batch(stored(3)))
        await _state(proxy, "s1", SUSPECT)
        (doubtful,) = await proxy.lookup(FINGERPRINT, [block_set(1)])
        await _settle(lambda: len(secondary.followers) == 2)
        secondary.say(Script("s1").synced(1))
        await _state(proxy, "s1", LIVE)
        (certain,) = await proxy.lookup(FINGERPRINT, [block_set(1)])

    assert doubtful.results == (RETRY,)
    assert certain.results == (HIT,)


async def test_a_dead_secondary_has_nothing() -> None:
    """What only a dead node held is a miss: nobody can load it now."""
    async with _serving("p", "s1") as (proxy, (primary, secondary)):
        await _synced(proxy, (primary, secondary), [], [1])
        primary.node.on("LookupBlocks", _answer(MISS))

        await secondary.node.stop()
        await _state(proxy, "s1", DOWN)
        (looked,) = await proxy.lookup(FINGERPRINT, [block_set(1)])

        assert looked.results == (MISS,)
        assert looked.prefix_lengths == (0, 0)
        assert proxy.mirror.quality("s1").name == "STALE"


async def test_a_primary_that_does_not_answer_is_told() -> None:
    """Without the primary a lookup has no answer, and says so."""
    async with _serving("p", "s1") as (proxy, sources):
        await _synced(proxy, sources, [], [1])
        sources[0].node.on("LookupBlocks", fail(unavailable("draining", Reason.DRAINING)))

        with pytest.raises(UnavailableError, match="draining"):
            await proxy.lookup(FINGERPRINT, [block_set(1)])


async def test_a_touch_reaches_the_primary_and_every_secondary() -> None:
    """One call each, with the request's id; each answers for itself."""
    async with _serving("p", "s1", "s2") as (proxy, sources):
        await _synced(proxy, sources, [1], [1], [1])
        for source in sources:
            tiers = [f"tier of {source.script.node_id}"]
            source.node.on("TouchBlocks", _touched(tiers))
        sources[1].node.on("TouchBlocks", fail(not_found("what?", Reason.NAMESPACE_UNKNOWN)))

        answers = await proxy.touch(FINGERPRINT, [block_set(1)], request_id="r")

        first, second, third = answers
        assert isinstance(first, TouchBlocksResponse)
        assert list(first.tiers) == ["tier of p"]
        assert isinstance(second, KvtierError)
        assert second.reason == Reason.NAMESPACE_UNKNOWN
        assert isinstance(third, TouchBlocksResponse)
        for source in sources:
            (request,) = source.node.requests("TouchBlocks")
            assert request.request_id == "r"
            assert request.blocks[0].block_hashes == hash_of(1)


async def test_a_touch_does_not_wait_for_a_dead_secondary() -> None:
    """A node that is known to be down is answered for at once."""
    async with _serving("p", "s1") as (proxy, (primary, secondary)):
        await _synced(proxy, (primary, secondary), [1], [1])
        await secondary.node.stop()
        await _state(proxy, "s1", DOWN)

        _, answer = await proxy.touch(FINGERPRINT, [block_set(1)])

        assert isinstance(answer, UnavailableError)
        assert secondary.node.endpoint in answer.message


async def test_events_that_nobody_takes_are_dropped_and_the_reader_starts_over() -> None:
    """The buffer is bounded; the mirror goes on; coming back brings a reset and a snapshot."""
    async with _serving("p", "s1", buffer_bytes=20_000, patience=0.05) as (proxy, sources):
        primary, secondary = sources
        await _synced(proxy, sources, [], [])

        for number in range(200):
            secondary.say(secondary.script.batch(stored(number)))
        await _settle(lambda: proxy.mirror.count("s1", "cpu0") == 200)
        assert len(secondary.followers) == 1

        found = proxy.take_events()
        await _settle(lambda: len(secondary.followers) == 2)
        secondary.say(
            secondary.script.reset(ResetReason.RESET_REASON_NO_POSITION),
            secondary.script.page(stored(*range(200))),
            secondary.script.synced(200),
            secondary.script.batch(stored(999)),
        )
        primary.say(primary.script.batch(stored(1)))
        found += await _events(proxy, 5)

        kinds = [each.WhichOneof("kind") for each in _real(found) if each.node_id == "s1"]
        assert kinds == ["reset", "snapshot", "synced", "batches"]
        assert [list(each.positions) for each in secondary.followers] == [[], []]
        assert len(primary.followers) == 1
        assert proxy.mirror.count("s1", "cpu0") == 201


async def test_a_reader_that_comes_back_learns_that_a_node_is_down() -> None:
    """A state that was dropped with the events is told again."""
    async with _serving("p", "s1", buffer_bytes=2_000, patience=0.05) as (proxy, sources):
        secondary = sources[1]
        await _synced(proxy, sources, [], [])
        for number in range(20):
            secondary.say(secondary.script.batch(stored(number)))
        await _settle(lambda: proxy.mirror.count("s1", "cpu0") == 20)
        await secondary.node.stop()
        await _settle(lambda: proxy.mirror.quality("s1").name == "STALE")

        found = proxy.take_events()

        assert _states(found) == [("s1", DOWN)]


async def test_a_slow_reader_is_waited_for() -> None:
    """A full buffer that is read within the patience loses nothing and starts nothing over."""
    async with _serving("p", "s1", buffer_bytes=2_000, patience=30.0) as (proxy, sources):
        await _synced(proxy, sources, [], [])
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
    async with _serving("p", "same", "same") as (proxy, (primary, one, two)):
        for source, numbers in ((primary, [9]), (one, [1])):
            source.say(*source.script.start(stored(*numbers)))
        await _events(proxy, 8)
        two.say(*two.script.start(stored(2)), two.script.batch(stored(3)))

        found = await _state(proxy, "", DOWN)

        reasons = [each.state.reason for each in found if each.state.source == DOWN]
        assert _real(found) == []
        assert len(reasons) == 1
        assert one.node.endpoint in reasons[0]
        assert two.node.endpoint in reasons[0]
        assert {key.block_hash for key in proxy.mirror.blocks("same", "cpu0")} == {hash_of(1)}


async def test_another_node_at_an_address_takes_the_place_of_the_first() -> None:
    """Nothing of the node that was there before is left in the mirror."""
    async with _serving("p", "old") as (proxy, (primary, secondary)):
        await _synced(proxy, (primary, secondary), [], [1])
        secondary.fall_over()
        await _settle(lambda: len(secondary.followers) == 2)

        secondary.script = Script("new", epoch=9)
        secondary.say(*secondary.script.start(stored(2)))
        await _settle(lambda: proxy.mirror.count("new", "cpu0") == 1)

        assert proxy.mirror.nodes() == ["new"]


async def test_a_watch_that_cannot_go_on_is_a_node_that_is_down() -> None:
    """A refusal that trying again cannot help is told with its reason."""
    async with _serving("p", "s1") as (proxy, (primary, secondary)):
        await _synced(proxy, (primary, secondary), [], [1])
        secondary._queue.put_nowait(not_found("no tier gpu7", Reason.TIER_UNKNOWN))

        found = await _state(proxy, "s1", DOWN)

        assert "no tier gpu7" in found[-1].state.reason


async def test_closing_leaves_nothing_running() -> None:
    """All watches and readers of a proxy end with it."""
    before = asyncio.all_tasks()
    async with _serving("p", "s1") as (proxy, sources):
        await _synced(proxy, sources, [], [])

    await asyncio.sleep(0.1)

    names = {str(task.get_coro()) for task in asyncio.all_tasks() - before}
    assert not [name for name in names if "kvtier" in name or "Feed" in name or "Watch" in name]


@pytest.mark.parametrize("quota", [0, -1])
async def test_a_quota_is_positive(client: NodeClient, quota: int) -> None:
    """A quota that would starve every secondary is refused."""
    with pytest.raises(InvalidArgumentError, match="quota must be at least 1"):
        TieringProxy(client, [], quota=quota)
