"""A proxy over scripted sources."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from kvtier.client import (
    Backoff,
    KvtierError,
    NodeClient,
    TieringProxy,
    Watch,
)
from kvtier.v1.event_service_pb2 import (
    SourceState,
    WatchEventsRequest,
    WatchEventsResponse,
)
from kvtier.v1.lookup_pb2 import LookupBlocksResponse
from kvtier.v1.result_pb2 import ChainLookup, LookupResult
from kvtier.v1.tier_service_pb2 import TouchBlocksResponse
from kvtier.wire.errors import Reason, unavailable

from .fakes import FakeNode
from .messages import Script, stored

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


def quick(client: NodeClient, **options: Any) -> Watch:
    return Watch(client, heartbeat_interval=600.0, backoff=Backoff(base=0.001, cap=0.01), **options)


@asynccontextmanager
async def serving(
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
        proxy = TieringProxy(clients[0], clients[1:], **{"watch": quick, **options})
        await stack.enter_async_context(proxy)
        yield proxy, sources


async def settle(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - what it waits for has no event
            await asyncio.sleep(0.005)


def real(messages: Sequence[WatchEventsResponse]) -> list[WatchEventsResponse]:
    return [each for each in messages if not each.state.source]


def states(messages: Sequence[WatchEventsResponse]) -> list[tuple[str, SourceState.ValueType]]:
    return [(each.node_id, each.state.source) for each in messages if each.state.source]


async def until(
    proxy: TieringProxy, condition: Callable[[list[WatchEventsResponse]], bool]
) -> list[WatchEventsResponse]:
    """Return what take_events() brings until that is enough."""
    found: list[WatchEventsResponse] = []
    async with asyncio.timeout(10):
        while not condition(found):
            await asyncio.sleep(0.005)
            found += proxy.take_events()
    return found


async def events(proxy: TieringProxy, count: int) -> list[WatchEventsResponse]:
    """Return what take_events() brings until there are so many messages of the nodes' own."""
    return await until(proxy, lambda found: len(real(found)) >= count)


async def state_told(
    proxy: TieringProxy, node_id: str, state: SourceState.ValueType
) -> list[WatchEventsResponse]:
    """Return what take_events() brings until it tells the state of a node."""
    return await until(proxy, lambda found: (node_id, state) in states(found))


async def synced(proxy: TieringProxy, sources: Sequence[Source], *contents: Sequence[int]) -> None:
    """Let every source say what it holds, and take that."""
    for source, numbers in zip(sources, contents, strict=True):
        source.say(*source.script.start(*([stored(*numbers)] if numbers else [])))
    await until(
        proxy, lambda found: [state for _, state in states(found)].count(LIVE) == len(sources)
    )


def answer(*results: LookupResult.ValueType) -> Callable[[Any], LookupBlocksResponse]:
    length = next((i for i, each in enumerate(results) if each != HIT), len(results))
    chain = ChainLookup(results=results, union_prefix_length=length)
    return lambda _: LookupBlocksResponse(tiers=["cpu0"], chains=[chain])


def touched(tiers: Sequence[str]) -> Callable[[Any], TouchBlocksResponse]:
    return lambda _: TouchBlocksResponse(tiers=tiers)
