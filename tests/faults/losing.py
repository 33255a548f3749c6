"""A way to a node on which messages of the event stream can be lost."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio

from kvtier.v1.event_service_pb2 import WatchEventsRequest, WatchEventsResponse
from kvtier.v1.event_service_pb2_grpc import (
    EventServiceServicer,
    EventServiceStub,
    add_EventServiceServicer_to_server,
)


class Losing(EventServiceServicer):
    """Hands on a node's event streams, but for what it is told to lose.

    Attributes:
        endpoint: Where clients connect to.
        requests: What was asked for, stream by stream.
        lose: Tells whether a message of the first stream is lost.
        opens: Let streams after the first begin.
    """

    def __init__(self) -> None:
        self.endpoint = ""
        self.requests: list[WatchEventsRequest] = []
        self.lose: Callable[[WatchEventsResponse], bool] = lambda _: False
        self.opens = asyncio.Event()
        self.node: Any = None

    async def WatchEvents(  # noqa: N802 - gRPC's name
        self, request: WatchEventsRequest, context: Any
    ) -> AsyncIterator[WatchEventsResponse]:
        self.requests.append(request)
        first = len(self.requests) == 1
        if not first:
            await self.opens.wait()
        async for message in self.node.WatchEvents(request):
            if not (first and self.lose(message)):
                yield message


@asynccontextmanager
async def losing(endpoint: str) -> AsyncIterator[Losing]:
    """Lead to a node."""
    way, server = Losing(), grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    add_EventServiceServicer_to_server(way, server)
    way.endpoint = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    async with grpc.aio.insecure_channel(endpoint) as channel:
        way.node = EventServiceStub(channel)
        await server.start()
        try:
            yield way
        finally:
            await server.stop(None)
