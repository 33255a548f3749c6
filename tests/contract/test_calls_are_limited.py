"""One caller has so many calls under way and no more; nobody else notices, and health least."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio
import pytest

from kvtier.client import ExhaustedError, NodeClient, Reason
from kvtier.v1.event_service_pb2 import WatchEventsRequest
from kvtier.v1.event_service_pb2_grpc import EventServiceStub
from kvtier.v1.tier_service_pb2 import GetNodeRequest, PrepareStoreRequest
from kvtier.v1.tier_service_pb2_grpc import TierServiceStub
from tests.faults.relay import Relay
from tests.waiting import until

from .conftest import Serve
from .health import health
from .lease_stream import lease_stream
from .proxies import ServeProxy, serve_proxy
from .support import blocks_of, cpu_tier, run
from .wire import refusal

__all__ = ["serve_proxy"]

KIB = 1 << 10
CALLS = 3
ELSEWHERE = "127.0.0.2"


@asynccontextmanager
async def streams(endpoint: str, number: int) -> AsyncIterator[list[str]]:
    """Follow a server so many times on one connection; give how each began."""
    async with grpc.aio.insecure_channel(endpoint) as channel:
        stub: Any = EventServiceStub(channel)
        calls = [stub.WatchEvents(WatchEventsRequest()) for _ in range(number)]
        yield await asyncio.gather(*(begun(call) for call in calls))
        for call in calls:
            call.cancel()


@asynccontextmanager
async def elsewhere(endpoint: str) -> AsyncIterator[NodeClient]:
    """Connect to a node from another address."""
    async with Relay(endpoint, source=ELSEWHERE) as relay, NodeClient(relay.endpoint) as client:
        yield client


async def begun(call: Any) -> str:
    try:
        await call.read()
    except grpc.aio.AioRpcError as error:
        return refusal(error).metadata.get("limit", error.code().name)
    return "OK"


async def test_a_caller_with_as_many_calls_as_it_may_is_told_so(serve: Serve) -> None:
    """By any connection; another caller is not, and probes never are. Places come back."""
    node = await serve(cpu_tier(4), limits={"calls_per_caller": CALLS})
    async with NodeClient(node.endpoint) as newcomer:
        async with streams(node.endpoint, CALLS) as began, health(node.endpoint) as asked:
            with pytest.raises(ExhaustedError) as error:
                await newcomer.lookup(node.namespace, [blocks_of(1)])
            assert await asked.check() == "SERVING"
            async with elsewhere(node.endpoint) as other:
                await other.lookup(node.namespace, [blocks_of(1)])
        await until(lambda: not node.server.serving.limits.calls)
        await newcomer.lookup(node.namespace, [blocks_of(1)])

    assert began == ["OK"] * CALLS
    assert error.value.reason == Reason.CALL_LIMIT
    assert error.value.metadata["limit"] == "calls_per_caller"
    assert error.value.retry_after
    assert +node.node.limited == {"calls_per_caller": 1}


async def test_all_callers_have_as_many_calls_as_they_may(serve: Serve) -> None:
    """Whoever comes then is told so."""
    node = await serve(cpu_tier(4), limits={"calls": CALLS})
    async with streams(node.endpoint, CALLS), elsewhere(node.endpoint) as other:
        with pytest.raises(ExhaustedError, match=r"limits\.calls") as error:
            await other.lookup(node.namespace, [blocks_of(1)])

    assert error.value.metadata["limit"] == "calls"


async def test_a_caller_of_a_proxy_has_limits_too(serve: Serve, serve_proxy: ServeProxy) -> None:
    """Of followers, and of calls."""
    node = await serve(cpu_tier(4))
    limits = {"calls_per_caller": CALLS, "followers_per_caller": CALLS - 1}
    proxy = await serve_proxy(node.endpoint, limits=limits)

    async with streams(proxy.address, CALLS) as began, NodeClient(proxy.address) as client:
        await client.get_node()

    assert Counter(began) == {"OK": CALLS - 1, "followers_per_caller": 1}
    assert +proxy.serving.limits.limited == {"followers_per_caller": 1}


async def test_metadata_is_limited(serve: Serve) -> None:
    """Below the limit it is no matter; beyond it gRPC refuses the call, every time."""
    node = await serve(cpu_tier(4), limits={"metadata_bytes": "8KiB"})
    async with grpc.aio.insecure_channel(node.endpoint) as channel:
        stub: Any = TierServiceStub(channel)

        async def code_of(size: int) -> str:
            try:
                await stub.GetNode(GetNodeRequest(), metadata=(("much", "x" * size),))
            except grpc.aio.AioRpcError as error:
                return error.code().name
            return "OK"

        assert {await code_of(7 * KIB) for _ in range(20)} == {"OK"}
        assert {await code_of(9 * KIB) for _ in range(20)} == {"RESOURCE_EXHAUSTED"}


async def test_calls_on_a_stream_of_leases_are_counted_by_their_limit(serve: Serve) -> None:
    """Though the stream itself goes on."""
    node = await serve(cpu_tier(4), limits={"leases_per_caller": 1})

    def offer(block: int) -> PrepareStoreRequest:
        return PrepareStoreRequest(
            tier="cpu0",
            namespace=node.namespace,
            runs=[run(block)],
            lease_id=os.urandom(16),
            owner=f"engine-{block}",
        )

    async with lease_stream(node.endpoint) as stream:
        first = await stream.call(1, prepare_store=offer(1))
        second = await stream.call(2, prepare_store=offer(2))

    assert first.lease.id
    assert second.metadata == {"limit": "leases_per_caller"}
    assert +node.node.limited == {"leases_per_caller": 1}
