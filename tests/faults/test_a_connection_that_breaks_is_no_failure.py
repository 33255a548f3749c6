"""A peer that is gone while a node writes to it is the peer's affair, not the node's."""

import asyncio

import grpc.aio
from structlog.testing import capture_logs

from kvtier.v1.event_service_pb2 import WatchEventsRequest
from kvtier.v1.event_service_pb2_grpc import EventServiceStub
from tests.contract.conftest import Serve
from tests.contract.support import cpu_tier, payloads, run

from .relay import Relay

# A client that takes in little, so that a few events keep the node waiting.
NARROW = [("grpc.http2.lookahead_bytes", 16 << 10), ("grpc.http2.bdp_probe", 0)]
OFFERS, OFFER = 60, 30


async def test_a_reset_under_a_waiting_write_ends_the_call_without_an_error_in_the_log(
    serve: Serve,
) -> None:
    """The follower is counted out, and nothing is logged as a failure of the server."""
    node = await serve(cpu_tier(OFFERS * OFFER))
    here = node.server.node
    with capture_logs() as logs:
        async with (
            Relay(node.endpoint) as relay,
            grpc.aio.insecure_channel(relay.endpoint, options=NARROW) as channel,
        ):
            stream = aiter(EventServiceStub(channel).WatchEvents(WatchEventsRequest()))
            await anext(stream)
            for offer in range(OFFERS):
                blocks = [(offer, number) for number in range(OFFER)]
                await node.client.store("cpu0", node.namespace, [run(*blocks)], payloads(*blocks))
            assert here.followers == 1

            relay.reset()
            async with asyncio.timeout(10):
                while here.followers:  # noqa: ASYNC110 - what it waits for has no event
                    await asyncio.sleep(0.01)

    assert [entry for entry in logs if entry["log_level"] == "error"] == []
