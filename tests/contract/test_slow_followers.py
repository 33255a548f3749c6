"""A follower that does not keep up holds nobody up, and gets its view anew on the same stream."""

import asyncio
from typing import Any

import grpc.aio

from kvtier.v1.event_service_pb2 import WatchEventsRequest
from kvtier.v1.event_service_pb2_grpc import EventServiceStub

from .conftest import Serve
from .folding import Fold, listed
from .following import following
from .support import cpu_tier
from .writing import writing

# A client whose transport takes in no more than it has read.
NARROW = [("grpc.http2.lookahead_bytes", 16 << 10), ("grpc.http2.bdp_probe", 0)]
SMALL_LOG = {"max_batches": 64, "message_bytes": "4KiB", "linger": 0, "heartbeat_interval": 0.1}


async def test_a_follower_that_fell_behind_starts_over_on_its_stream(serve: Serve) -> None:
    """Writers and others do not notice it; it is told why, and ends with the whole view."""
    node = await serve(cpu_tier(512), events=SMALL_LOG)
    fold = Fold()
    async with (
        following(node.endpoint) as quick,
        grpc.aio.insecure_channel(node.endpoint, options=NARROW) as channel,
    ):
        stub: Any = EventServiceStub(channel)
        slow = stub.WatchEvents(WatchEventsRequest())
        messages = aiter(slow)
        while not fold.synced:
            fold.apply(await anext(messages))
        async with writing(node, "cpu0") as writers:
            await quick.until(lambda: writers.calls > 300)
        head = (await node.client.get_node()).head.sequence
        async with asyncio.timeout(20):
            while not fold.synced or fold.through < head:
                fold.apply(await anext(messages))
        await quick.settle(node.client)
        slow.cancel()

    assert fold.resets == ["NO_POSITION", "LAGGED"]
    assert quick.fold.resets == ["NO_POSITION"]
    assert fold.view == quick.fold.view == await listed(node.client)
