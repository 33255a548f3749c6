"""Many followers of one node, each of which has read something.

Run as a program, with an endpoint, a number, and how many messages each reads, it follows until it
is killed. A line on its standard input makes it read on, and print how each stream ended.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import grpc.aio

from kvtier.v1.event_service_pb2 import WatchEventsRequest
from kvtier.v1.event_service_pb2_grpc import EventServiceStub
from kvtier.wire.errors import decode_details

# Followers on one connection.
_TOGETHER = 10
# The transport takes in little more than what was read.
_OPTIONS = [
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.http2.lookahead_bytes", 16 << 10),
    ("grpc.http2.bdp_probe", 0),
]


@asynccontextmanager
async def crowd(endpoint: str, number: int, reads: int = 1) -> AsyncIterator[list[Any]]:
    """Follow a node so many times, and give the calls once each brought so many messages."""
    async with AsyncExitStack() as stack:
        calls: list[Any] = []
        for place in range(number):
            if place % _TOGETHER == 0:
                channel = await stack.enter_async_context(
                    grpc.aio.insecure_channel(endpoint, options=_OPTIONS)
                )
                stub: Any = EventServiceStub(channel)
            calls.append(stub.WatchEvents(WatchEventsRequest()))
        await asyncio.gather(*(call.initial_metadata() for call in calls))
        for _ in range(reads):
            await asyncio.gather(*(call.read() for call in calls))
        yield calls


async def ending(call: Any) -> tuple[str, str]:
    """Read a stream to its end, and return its code and reason."""
    with suppress(grpc.aio.AioRpcError):
        while await call.read() is not grpc.aio.EOF:
            pass
    code = await call.code()
    trailers = [(str(key), value) for key, value in await call.trailing_metadata()]
    return code.name, decode_details(code, "", trailers).reason


async def _stay(endpoint: str, number: int, reads: int = 1) -> None:
    async with crowd(endpoint, number, reads) as calls:
        _say("following")
        if not await asyncio.to_thread(sys.stdin.readline):
            await asyncio.Event().wait()
        _say(json.dumps(await asyncio.gather(*map(ending, calls))))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_stay(sys.argv[1], *map(int, sys.argv[2:])))
