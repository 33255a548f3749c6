"""However many followers a node has, whoever asks it something is answered soon."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import grpc.aio
import pytest

from kvtier.client import NodeClient, Reason
from kvtier.v1.event_service_pb2 import WatchEventsRequest
from kvtier.v1.event_service_pb2_grpc import EventServiceStub
from kvtier.v1.lookup_pb2 import LookupBlocksRequest
from kvtier.v1.result_pb2 import LookupResult
from kvtier.v1.tier_service_pb2_grpc import TierServiceStub
from tests.contract.health import health
from tests.contract.support import blocks_of, namespace, payloads, run, words
from tests.contract.wire import refusal

from .conftest import StartNode
from .crowds import crowd_process

LIMIT = 256
STREAMS = 300
# What is asked for is 0.25 s. A machine for tests may stand still that long by itself when it runs
# other tests beside; a node that followers hold up would take many times that.
SOON = 1.0


async def first_word(call: Any) -> str:
    """Return how a stream begins: with a message, or by the reason of its refusal."""
    try:
        return "following" if await call.read() is not grpc.aio.EOF else "ended"
    except grpc.aio.AioRpcError as error:
        return refusal(error).reason


async def test_streams_on_one_channel_leave_room_for_a_lookup(start_node: StartNode) -> None:
    """Some three hundred of them are taken or refused at once, and a lookup is answered."""
    node = await start_node(limits={"followers": LIMIT, "snapshots": 64})
    async with NodeClient(node.endpoint) as client:
        fingerprint = await client.register_namespace(namespace())
        await client.store("cpu0", fingerprint, [run("A")], payloads("A"))
        async with grpc.aio.insecure_channel(node.endpoint) as channel:
            events: Any = EventServiceStub(channel)
            tiers: Any = TierServiceStub(channel)
            calls = [events.WatchEvents(WatchEventsRequest()) for _ in range(STREAMS)]
            async with asyncio.timeout(10):
                begun = await asyncio.gather(*map(first_word, calls))
            request = LookupBlocksRequest(
                namespace=fingerprint, chains=[blocks_of("A")], include_blocks=True
            )
            answer = await tiers.LookupBlocks(request, timeout=2)
            followers = (await client.get_node()).followers
            for call in calls:
                call.cancel()

    assert words(LookupResult, answer.chains[0].results) == ["HIT"]
    assert begun.count("following") == followers == LIMIT
    assert begun.count(Reason.FOLLOWER_LIMIT) == STREAMS - LIMIT


async def timed(call: Callable[[], Awaitable[object]]) -> float:
    start = time.perf_counter()
    await call()
    return time.perf_counter() - start


@pytest.mark.slow
async def test_crowds_in_many_processes_hold_up_no_question(start_node: StartNode) -> None:
    """Lookups and probes stay quick while they come, are there and see events; then it is full."""
    node = await start_node(limits={"followers": 200, "snapshots": 64})
    took: list[float] = []
    async with (
        NodeClient(node.endpoint) as client,
        health(node.endpoint) as probe,
        AsyncExitStack() as stack,
    ):
        fingerprint = await client.register_namespace(namespace())
        stop = asyncio.Event()

        async def ask() -> None:
            while not stop.is_set():
                took.append(await timed(lambda: client.lookup(fingerprint, [blocks_of(1, 2, 3)])))
                took.append(await timed(client.get_node))
                took.append(await timed(probe.check))
                await asyncio.sleep(0.1)

        asking = asyncio.create_task(ask())
        for _ in range(4):
            await stack.enter_async_context(crowd_process(node.endpoint, 50))
        for block in range(100):
            await client.store("cpu0", fingerprint, [run(block)], payloads(block))
        followers = (await client.get_node()).followers
        async with grpc.aio.insecure_channel(node.endpoint) as channel:
            stub: Any = EventServiceStub(channel)
            late = await first_word(stub.WatchEvents(WatchEventsRequest()))
        stop.set()
        await asking

    assert followers == 200
    assert late == Reason.FOLLOWER_LIMIT
    assert len(took) > 10
    assert max(took) < SOON
