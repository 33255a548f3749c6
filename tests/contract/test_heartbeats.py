"""An idle stream says that it is alive, how far the log has come, and nothing too early."""

import asyncio
from typing import Any

import grpc.aio
import pytest

from kvtier.v1.block_pb2 import Medium
from kvtier.v1.event_service_pb2 import WatchEventsRequest
from kvtier.v1.event_service_pb2_grpc import EventServiceStub

from .conftest import Serve
from .following import following
from .support import NO_HEARTBEATS, cpu_tier, gpu_tier
from .writing import writing

IDLE = {"linger": 0, "heartbeat_interval": 0.1}


async def test_an_idle_stream_beats(serve: Serve) -> None:
    """Progress comes in every interval, says where the log stands, and accounts for nothing new."""
    node = await serve(events=IDLE)
    await node.store(1, 2)
    loop = asyncio.get_running_loop()
    async with following(node.endpoint) as follower:
        start = loop.time()
        await follower.until(lambda: follower.kinds.count("progress") >= 5)
        took = loop.time() - start

    beats = [message for message in follower.messages if message.HasField("progress")]
    assert [(b.after, b.through, b.progress.head) for b in beats] == [(1, 1, 1)] * len(beats)
    assert 0.3 < took < 5


async def test_an_event_does_not_wait_for_the_next_beat(serve: Serve) -> None:
    """On a stream that is idle for a long interval, an event comes at once."""
    node = await serve(events=NO_HEARTBEATS)
    async with following(node.endpoint) as follower:
        await node.store(1)
        async with asyncio.timeout(5):
            await follower.until(lambda: follower.batches)

    assert "progress" not in follower.kinds


async def test_progress_never_overtakes_an_event(serve: Serve) -> None:
    """While writers are busy, every progress accounts only for what was sent before it."""
    node = await serve(cpu_tier(64), events={"heartbeat_interval": 0.05, "linger": 0})
    async with following(node.endpoint) as follower:
        async with writing(node, "cpu0"):
            await follower.until(lambda: follower.kinds.count("progress") >= 5)
        await follower.settle(node.client)

    told = 0
    for message in follower.messages:
        for batch in message.batches.batches:
            told = batch.sequence
        if message.HasField("progress"):
            assert message.through <= max(told, message.after)
            assert message.progress.head >= message.through
    assert told == follower.fold.through


async def test_a_filtered_stream_beats_with_what_it_leaves_out(serve: Serve) -> None:
    """A beat accounts for the batches that did not pass, so that a reconnect goes on from there."""
    node = await serve(gpu_tier(4), cpu_tier(4), events=IDLE)
    async with following(node.endpoint, media=[Medium.MEDIUM_GPU]) as follower:
        for block in range(10):
            await node.store(block)
        await follower.settle(node.client)

    assert not follower.batches
    assert follower.fold.through > 10
    assert follower.messages[-1].HasField("progress")


@pytest.mark.parametrize("blocks", [0, 500], ids=["empty", "filled"])
async def test_the_metadata_comes_at_once(serve: Serve, blocks: int) -> None:
    """A caller knows that its call was taken before any message is due."""
    node = await serve(cpu_tier(512), events=NO_HEARTBEATS)
    if blocks:
        await node.store(*range(blocks))
    async with grpc.aio.insecure_channel(node.endpoint) as channel:
        stub: Any = EventServiceStub(channel)
        call = stub.WatchEvents(WatchEventsRequest())

        async with asyncio.timeout(5):
            metadata = await call.initial_metadata()

        assert metadata is not None
        assert not call.done()
        call.cancel()
