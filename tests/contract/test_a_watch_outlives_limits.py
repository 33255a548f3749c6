"""A limit ends a stream with a reason of its own, and a watch comes back when there is room."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import grpc.aio
import pytest

from kvtier.client import Backoff, Watch
from kvtier.v1.event_service_pb2 import WatchEventsRequest, WatchEventsResponse
from kvtier.v1.event_service_pb2_grpc import EventServiceStub
from kvtier.wire.errors import KvtierError, Reason
from tests.waiting import until

from .conftest import Serve
from .folding import Fold, listed
from .following import following
from .support import Serving, cpu_tier
from .viewing import watching
from .wire import refusal

# A client whose transport takes in little more than it has read.
NARROW = [("grpc.http2.lookahead_bytes", 16 << 10), ("grpc.http2.bdp_probe", 0)]
CHAINS = 16
EVENTS = {"message_bytes": "4KiB", "linger": 0, "heartbeat_interval": 0.1}


@asynccontextmanager
async def narrow_stream(endpoint: str) -> AsyncIterator[Any]:
    """A stream that the node can fill up."""
    async with grpc.aio.insecure_channel(endpoint, options=NARROW) as channel:
        stub: Any = EventServiceStub(channel)
        call = stub.WatchEvents(WatchEventsRequest())
        await call.initial_metadata()
        yield call


async def a_large_snapshot(node: Serving) -> None:
    """Store more than a transport takes in unread."""
    for chain in range(CHAINS):
        await node.store(*((chain, place) for place in range(1000)))


async def nothing(_: WatchEventsResponse) -> None:
    """Do nothing between two messages."""


async def ending(
    call: Any, between: Callable[[WatchEventsResponse], Awaitable[None]] = nothing
) -> KvtierError:
    """Read a stream to its end, with something done after each message; return why it ended."""
    try:
        async for message in call:
            await between(message)
    except grpc.aio.AioRpcError as error:
        return refusal(error)
    pytest.fail("the stream ended without an error")


async def test_a_watch_waits_for_a_place_among_the_followers(serve: Serve) -> None:
    """Refused while the node is full, it is in sync once somebody left."""
    node = await serve(limits={"followers": 1}, events=EVENTS)
    await node.store(1)
    async with AsyncExitStack() as full:
        await full.enter_async_context(following(node.endpoint))
        async with watching(node.client) as view:
            await view.until(lambda: any("FOLLOWER_LIMIT" in m.state.reason for m in view.messages))
            await full.aclose()
            await view.settle(node.client)
            held = {key.block_hash for key in view.held(node.node.node_id)}

    assert held == await node.held()


async def test_a_watch_waits_for_a_place_among_the_snapshots(serve: Serve) -> None:
    """Who takes nothing of a snapshot is sent off with a reason, and its place is given away."""
    node = await serve(
        cpu_tier(1000 * CHAINS),
        limits={"snapshots": 1},
        events={**EVENTS, "snapshot_stall_timeout": 1.5},
    )
    await a_large_snapshot(node)
    async with narrow_stream(node.endpoint) as call:
        stuck = aiter(call)
        # With its first message it has the place, which the watch then waits for.
        await anext(stuck)
        async with watching(node.client) as view:
            await view.settle(node.client)
            held = {key.block_hash for key in view.held(node.node.node_id)}
            error = await ending(stuck)

    assert held == await node.held()
    assert any("SNAPSHOT_LIMIT" in message.state.reason for message in view.messages)
    assert (error.code.name, error.reason) == ("RESOURCE_EXHAUSTED", Reason.FOLLOWER_STALLED)
    assert error.retry_after
    await until(lambda: node.node.followers == 0)


async def test_a_watch_that_nobody_reads_is_sent_off_and_comes_back(serve: Serve) -> None:
    """When its reader looks again it gets what was on its way, the reason, and the rest."""
    node = await serve(cpu_tier(1000), events={"linger": 0, "stall_timeout": 0.3})
    fold, reasons = Fold(), list[str]()

    def take(message: WatchEventsResponse) -> None:
        if message.state.source:
            reasons.append(message.state.reason)
            return
        fold.apply(message)

    async with Watch(node.client, backoff=Backoff(base=0.02, cap=0.1)) as watch:
        while not fold.synced:
            take(await anext(watch))
        blocks = 0
        while node.node.followers:
            await node.store(*range(blocks, blocks + 1000))
            blocks += 1000
        head = node.node.log.head
        async with asyncio.timeout(20):
            while not (fold.synced and fold.through == head):
                message = await anext(watch)
                if message.state.source:
                    fold.reopen()
                take(message)

    assert any("FOLLOWER_STALLED" in reason for reason in reasons)
    assert fold.view == await listed(node.client)


async def test_three_resets_without_synced_end_a_stream(serve: Serve) -> None:
    """Who is too slow for any snapshot is told so, and may come back."""
    node = await serve(cpu_tier(1000 * CHAINS + 1), events={**EVENTS, "max_batches": 4})
    await a_large_snapshot(node)
    kinds: list[str] = []

    async def keep_it_lagging(message: WatchEventsResponse) -> None:
        kinds.append(message.WhichOneof("kind") or "")
        for turn in range(8):
            await node.store(("new", len(kinds), turn))

    async with narrow_stream(node.endpoint) as call:
        error = await ending(call, keep_it_lagging)

    assert kinds.count("reset") == 3
    assert "synced" not in kinds
    assert (error.code.name, error.reason) == ("RESOURCE_EXHAUSTED", Reason.RESET_LIMIT)
    assert error.retry_after
    async with watching(node.client) as view:
        await view.settle(node.client)
        assert {key.block_hash for key in view.held(node.node.node_id)} == await node.held()
