"""Following a scripted node with a watch."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from kvtier.client import Backoff, NodeClient, Watch
from kvtier.v1.event_service_pb2 import (
    SourceState,
    WatchEventsRequest,
    WatchEventsResponse,
)
from kvtier.wire.errors import Reason, unavailable

from .fakes import Handler

CONNECTING = SourceState.SOURCE_STATE_CONNECTING
SNAPSHOT = SourceState.SOURCE_STATE_SNAPSHOT
LIVE = SourceState.SOURCE_STATE_LIVE
SUSPECT = SourceState.SOURCE_STATE_SUSPECT
DOWN = SourceState.SOURCE_STATE_DOWN
BROKEN = unavailable("gone", Reason.INTERNAL)

DRAINING = unavailable("the node is draining; every event was sent", Reason.DRAINING)


def open_watch(client: NodeClient, **options: Any) -> Watch:
    quick = Backoff(base=0.001, cap=0.01)
    return Watch(client, **{"heartbeat_interval": 600.0, "backoff": quick, **options})


def hold(*messages: WatchEventsResponse) -> Handler:
    """Return a handler that streams messages and then stays open."""

    async def handler(request: WatchEventsRequest) -> AsyncIterator[WatchEventsResponse]:
        for message in messages:
            yield message
        await asyncio.Event().wait()

    return handler


async def take(watch: Watch, count: int) -> list[WatchEventsResponse]:
    async with asyncio.timeout(10):
        return [await anext(watch) for _ in range(count)]


async def until(
    watch: Watch, wanted: Callable[[WatchEventsResponse], bool]
) -> list[WatchEventsResponse]:
    found = []
    async with asyncio.timeout(10):
        async for message in watch:
            found.append(message)
            if wanted(message):
                break
    return found


def is_state(state: SourceState.ValueType) -> Callable[[WatchEventsResponse], bool]:
    return lambda message: message.state.source == state


def states(messages: list[WatchEventsResponse]) -> list[SourceState.ValueType]:
    return [each.state.source for each in messages if each.state.source]


def real(messages: list[WatchEventsResponse]) -> list[WatchEventsResponse]:
    return [each for each in messages if not each.state.source]
