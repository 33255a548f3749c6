"""Many followers of one node, each of which has read something.

Run as a program, with an endpoint and a number, it follows until it is killed.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import grpc.aio

from kvtier.v1.event_service_pb2 import WatchEventsRequest
from kvtier.v1.event_service_pb2_grpc import EventServiceStub

# Followers on one connection.
_TOGETHER = 10


@asynccontextmanager
async def crowd(endpoint: str, number: int) -> AsyncIterator[list[Any]]:
    """Follow a node so many times, and give the calls once each brought a message."""
    async with AsyncExitStack() as stack:
        calls: list[Any] = []
        for place in range(number):
            if place % _TOGETHER == 0:
                channel = await stack.enter_async_context(
                    grpc.aio.insecure_channel(
                        endpoint, options=[("grpc.use_local_subchannel_pool", 1)]
                    )
                )
                stub: Any = EventServiceStub(channel)
            calls.append(stub.WatchEvents(WatchEventsRequest()))
        await asyncio.gather(*(call.read() for call in calls))
        yield calls


async def _stay(endpoint: str, number: int) -> None:
    async with crowd(endpoint, number):
        sys.stdout.write("following\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_stay(sys.argv[1], int(sys.argv[2])))
