"""A follower's pace is its own: it gets everything or a snapshot, and others notice nothing."""

import asyncio
from typing import Any

import grpc.aio
import pytest

from kvtier.v1.event_service_pb2 import WatchEventsRequest
from kvtier.v1.event_service_pb2_grpc import EventServiceStub

from .conftest import Serve
from .folding import Fold, listed
from .following import following
from .support import Serving, cpu_tier

EVENTS = {"max_batches": 128, "message_bytes": "4KiB", "linger": 0, "heartbeat_interval": 0.1}
# A client whose transport takes in little more than it has read.
NARROW = [("grpc.http2.lookahead_bytes", 16 << 10), ("grpc.http2.bdp_probe", 0)]
BLOCKS, TURNS = 50, 400


async def churn(node: Serving) -> None:
    """Store blocks, each of which evicts another: tens of thousands of events."""
    for turn in range(TURNS):
        await node.store(*((turn, place) for place in range(BLOCKS)))


async def read_slowly(call: Any, fold: Fold, done: asyncio.Event) -> None:
    """Read ten messages a second while there are changes, and then all that is left."""
    async for message in call:
        fold.apply(message)
        if not done.is_set():
            await asyncio.sleep(0.1)


@pytest.mark.slow
async def test_a_slow_follower_is_told_all_or_starts_over(serve: Serve) -> None:
    """Each view is checked message by message, and is the listing in the end."""
    node = await serve(cpu_tier(500), events=EVENTS)
    done, fold = asyncio.Event(), Fold()
    async with (
        following(node.endpoint) as fast,
        grpc.aio.insecure_channel(node.endpoint, options=NARROW) as channel,
    ):
        stub: Any = EventServiceStub(channel)
        call = stub.WatchEvents(WatchEventsRequest())
        reading = asyncio.create_task(read_slowly(call, fold, done))
        await churn(node)
        done.set()
        await fast.settle(node.client)
        head = (await node.client.get_node()).head.sequence
        async with asyncio.timeout(20):
            while not (fold.synced and fold.through == head):
                assert not reading.done()
                await asyncio.sleep(0.01)
        call.cancel()
        await asyncio.gather(reading, return_exceptions=True)

    assert fold.resets[0] == "NO_POSITION"
    assert set(fold.resets[1:]) == {"LAGGED"}
    assert fast.fold.resets == ["NO_POSITION"]
    assert len(fast.fold.told) > 20_000
    assert fold.view == fast.fold.view == await listed(node.client)
