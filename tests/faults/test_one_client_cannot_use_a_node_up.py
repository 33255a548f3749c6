"""One client that opens and begins very much meets limits, and others are served as before."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from google.protobuf.duration_pb2 import Duration

from kvtier.client import NodeClient, Reason
from kvtier.v1.event_service_pb2 import WatchEventsRequest
from kvtier.v1.event_service_pb2_grpc import EventServiceStub
from kvtier.v1.lookup_pb2 import LookupBlocksRequest
from kvtier.v1.tier_service_pb2 import GetNodeRequest, PrepareStoreRequest
from kvtier.v1.tier_service_pb2_grpc import TierServiceStub
from tests.contract.following import following
from tests.contract.support import blocks_of, cpu_tier, namespace, run
from tests.contract.wire import refusal
from tests.model.effort import examples

from . import bystander, relay
from .bulk import resident_bytes
from .conftest import StartNode
from .processes import ENVIRONMENT, NodeProcess, end

ROOT = Path(__file__).parents[2]
MIB = 1 << 20
STREAMS, STORES, LOOKUPS = 5000, 10_000, examples(20_000)
CALLS = 4096
# The defaults, of one caller and of one owner.
FOLLOWERS, LEASES = 256, 4096
ELSEWHERE = "127.0.0.2"
# Calls at one time on one connection: beyond 1,024 gRPC itself refuses some (REFUSED_STREAM).
TOGETHER = 900
# Everybody shares the processors, with other tests too.
SOON = 2.0
MOST_BYTES = 192 * MIB


@asynccontextmanager
async def program(name: str, *arguments: str) -> AsyncIterator[tuple[Process, str]]:
    """Run a module of tests in a process of its own, and give it with the first line it prints."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", name, *arguments),
        stdin=PIPE, stdout=PIPE, cwd=ROOT, env=ENVIRONMENT,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        yield process, (await process.stdout.readline()).decode().strip()
    finally:
        await end(process)


@asynccontextmanager
async def beside(node: NodeProcess) -> AsyncIterator[str]:
    """Have another client at work, which is never refused, and waits for nothing long.

    Gives an address by which everybody is the caller that it is, and not the greedy one.
    """
    before = resident_bytes(node)
    async with (
        program(relay.__name__, node.endpoint, ELSEWHERE) as (_, elsewhere),
        program(bystander.__name__, elsewhere) as (other, line),
    ):
        assert line == "at work"
        yield elsewhere
        grown = resident_bytes(node) - before
        out, _ = await other.communicate(b"")
    took = json.loads(out)
    assert len(took) > 2
    assert sorted(took)[len(took) * 9 // 10] < SOON
    assert grown < MOST_BYTES


@asynccontextmanager
async def connections(node: NodeProcess, calls: int) -> AsyncIterator[list[grpc.aio.Channel]]:
    """As many connections as so many calls take, one for each call: the same for many of them."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    async with AsyncExitStack() as stack:
        channels = [
            await stack.enter_async_context(grpc.aio.insecure_channel(node.endpoint, options))
            for _ in range(-(-calls // TOGETHER))
        ]
        yield [channels[number // TOGETHER] for number in range(calls)]


async def ended(call: Awaitable[Any]) -> str:
    """How a call ended: `OK`, or the reason of its refusal."""
    try:
        message = await call
    except grpc.aio.AioRpcError as error:
        return refusal(error).reason or error.code().name
    return "ended" if message is grpc.aio.EOF else "OK"


@pytest.mark.slow
async def test_streams_without_number(start_node: StartNode) -> None:
    """As many follow as one caller may, others find room beside, and all places come back."""
    node = await start_node(limits={"snapshots": 64})
    async with beside(node) as elsewhere, NodeClient(elsewhere, timeout=10) as client:
        async with connections(node, STREAMS) as channels:
            stubs: list[Any] = list(map(EventServiceStub, channels))
            calls = [stub.WatchEvents(WatchEventsRequest()) for stub in stubs]
            begun = Counter(await asyncio.gather(*(ended(call.read()) for call in calls)))
            async with following(elsewhere) as other:
                await other.settle(client)
        async with asyncio.timeout(20):
            while (await client.get_node()).followers:  # noqa: ASYNC110 - nothing announces it
                await asyncio.sleep(0.05)

    assert begun == {"OK": FOLLOWERS, Reason.FOLLOWER_LIMIT: STREAMS - FOLLOWERS}


@pytest.mark.slow
@pytest.mark.parametrize("owners", [1, STORES], ids=["one owner", "an owner for each"])
async def test_stores_that_are_begun_and_never_written(start_node: StartNode, owners: int) -> None:
    """Neither an owner nor a caller has more leases than it may, and all their room comes back."""
    node = await start_node(tiers=[cpu_tier(STORES)], limits={"leases_per_caller": LEASES})
    async with beside(node) as elsewhere, NodeClient(elsewhere, timeout=10) as client:
        fingerprint = await client.register_namespace(namespace())
        async with connections(node, STORES) as channels:
            stubs: list[Any] = list(map(TierServiceStub, channels))
            requests = [
                PrepareStoreRequest(
                    tier="cpu0",
                    namespace=fingerprint,
                    runs=[run(("greedy", number))],
                    lease_id=os.urandom(16),
                    owner=f"greedy-{number % owners}",
                    ttl=Duration(seconds=300),
                )
                for number in range(STORES)
            ]
            calls = [
                ended(stub.PrepareStore(each)) for stub, each in zip(stubs, requests, strict=True)
            ]
            begun = Counter(await asyncio.gather(*calls))
        (during,) = await client.list_tiers()
        names = [f"greedy-{number}" for number in range(owners)]
        released = [await client.release_leases(owner=name) for name in names]
        (after,) = await client.list_tiers()

    assert begun == {"OK": LEASES, Reason.LEASE_LIMIT: STORES - LEASES}
    assert LEASES <= during.pending_blocks <= LEASES + 1
    assert during.oldest_lease.owner.startswith("greedy-")
    assert sum(each.owner_leases for each in released) == LEASES
    assert after.pending_blocks <= 1


@pytest.mark.slow
async def test_lookups_without_number(start_node: StartNode) -> None:
    """Each that is sent at once is answered in the end, or told that there are too many."""
    node = await start_node()
    async with beside(node) as elsewhere, NodeClient(elsewhere, timeout=10) as client:
        fingerprint = await client.register_namespace(namespace())
        request = LookupBlocksRequest(namespace=fingerprint, chains=[blocks_of(*range(32))])
        async with connections(node, LOOKUPS) as channels:
            stubs: list[Any] = list(map(TierServiceStub, channels))
            calls = [ended(stub.LookupBlocks(request)) for stub in stubs]
            answered = Counter(await asyncio.gather(*calls))

    assert set(answered) <= {"OK", Reason.CALL_LIMIT}
    assert answered["OK"] >= CALLS
    assert answered.total() == LOOKUPS


async def test_metadata_of_a_mebibyte(start_node: StartNode) -> None:
    """It is refused before anything is done with it, and its connection serves on."""
    node = await start_node()
    before = resident_bytes(node)
    async with grpc.aio.insecure_channel(node.endpoint) as channel:
        stub: Any = TierServiceStub(channel)
        greedy = await ended(stub.GetNode(GetNodeRequest(), metadata=(("much", "x" * MIB),)))
        after = await ended(stub.GetNode(GetNodeRequest()))

    assert (greedy, after) == ("RESOURCE_EXHAUSTED", "OK")
    assert resident_bytes(node) - before < 16 * MIB
