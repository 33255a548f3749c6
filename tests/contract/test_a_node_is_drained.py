"""A node is drained by a call: out of service, and still there until somebody stops it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from kvtier.client import DeadlineError, InvalidArgumentError, KvtierError, NodeClient, Reason
from kvtier.v1.block_pb2 import Position
from kvtier.v1.event_service_pb2 import NodePosition
from kvtier.v1.node_service_pb2 import DrainResponse
from kvtier.v1.result_pb2 import CompleteResult
from tests.waiting import until

from .conftest import Serve
from .copy_gate import CopyGate
from .folding import listed
from .following import following
from .support import Serving, blocks_of, cpu_tier, gpu_tier, hash_set, payload, run, words

NOTHING_LEFT = DrainResponse()
Drain = Callable[[Serving], Awaitable["asyncio.Task[DrainResponse]"]]


@pytest.fixture
async def drain(serve: Serve) -> AsyncIterator[Drain]:
    """Begin to drain a node by a call; it refuses work when that is under way."""
    async with AsyncExitStack() as stack:

        async def start(node: Serving) -> "asyncio.Task[DrainResponse]":
            client = await stack.enter_async_context(NodeClient(node.endpoint))
            task = asyncio.create_task(client.drain())
            stack.callback(task.cancel)
            await until(lambda: node.node.closing)
            return task

        yield start


async def health_of(node: Serving, service: str = "") -> str:
    """What the node's health says of a service."""
    async with grpc.aio.insecure_channel(node.endpoint) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        answer = await stub.Check(health_pb2.HealthCheckRequest(service=service))
    return str(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))


async def refused(call: Awaitable[object]) -> tuple[str, str]:
    """The code and the reason with which a call is refused."""
    with pytest.raises(KvtierError) as error:
        await call
    return error.value.code.name, error.value.reason


DRAINING = ("UNAVAILABLE", Reason.DRAINING)


async def test_an_idle_node_is_drained_at_once_and_stays(serve: Serve) -> None:
    """Nothing is left, its health says so, and what only reads is answered as before."""
    node = await serve(drain_timeout=30)
    await node.store("a", "b")

    left = await node.client.drain()

    assert left == NOTHING_LEFT
    assert await health_of(node) == await health_of(node, "kvtier.v1.NodeService") == "NOT_SERVING"
    assert await health_of(node, "liveness") == "SERVING"
    assert (await node.client.get_node()).node_id == node.node.node_id
    assert (await node.tier()).ready_blocks == 2
    assert await node.held() == hash_set("ab")
    assert await node.look_up("a", "c") == ["HIT", "MISS"]


async def test_a_drained_node_refuses_what_would_change_it(serve: Serve) -> None:
    """Stores, loads, pins and deletes are refused with the reason, and change nothing."""
    node = await serve(drain_timeout=30)
    await node.store("a")
    await node.client.drain()
    client, space, blocks = node.client, node.namespace, [blocks_of("a")]
    before = await listed(client)

    answers = [
        await refused(client.store("cpu0", space, [run("b")], [payload("b")])),
        await refused(client.prepare_store("cpu0", space, [run("b")])),
        await refused(client.prepare_load("cpu0", space, blocks)),
        await refused(client.load("cpu0", space, blocks)),
        await refused(client.pin("cpu0", space, blocks)),
        await refused(client.delete(space, blocks)),
        await refused(client.clear("cpu0")),
    ]

    assert answers == [DRAINING] * len(answers)
    assert await listed(client) == before


async def test_a_drain_waits_for_leases_and_tells_followers_of_their_blocks(
    serve: Serve, drain: Drain
) -> None:
    """What is completed meanwhile is the last that followers hear before they are sent off."""
    node = await serve(drain_timeout=30)
    async with following(node.endpoint) as follower:
        prepared = await node.client.prepare_store("cpu0", node.namespace, [run("last")])
        draining = await drain(node)

        load = node.client.prepare_load("cpu0", node.namespace, [blocks_of("last")])
        assert await refused(load) == DRAINING
        assert await health_of(node) == "NOT_SERVING"
        assert not draining.done()
        assert follower.error is None
        await node.client.write_blocks(prepared.lease, {0: payload("last")}, [64])
        done = await node.client.complete_store(prepared.lease)

        assert await draining == NOTHING_LEFT
        await follower.until(lambda: follower.error)
    assert words(CompleteResult, done.results) == ["STORED"]
    assert {key.block_hash for key in follower.fold.view} == hash_set(["last"])
    assert follower.error is not None
    assert (follower.error.code.name, follower.error.reason) == DRAINING


async def test_what_does_not_end_in_time_is_told(serve: Serve) -> None:
    """Leases that outlast the drain are counted, pins are not; stores under them end."""
    node = await serve(drain_timeout=0)
    await node.store("a")
    await node.client.pin("cpu0", node.namespace, [blocks_of("a")])
    await node.client.prepare_load("cpu0", node.namespace, [blocks_of("a")])
    store = await node.client.prepare_store("cpu0", node.namespace, [run("b")])

    left = await node.client.drain()

    assert left == DrainResponse(leases=2)
    await node.client.write_blocks(store.lease, {0: payload("b")}, [64])
    assert await refused(node.client.complete_store(store.lease)) == DRAINING
    assert await node.held() == hash_set("a")


async def test_a_copy_that_does_not_end_in_time_is_given_up(serve: Serve, gate: CopyGate) -> None:
    """It is counted, and nothing of it becomes readable once followers were sent off."""
    node = await serve(gpu_tier(1, on_evict="cpu0", demote_wait=10), cpu_tier(4), drain_timeout=0)
    await node.store("a", tier="gpu0")
    gate.shut()
    storing = asyncio.create_task(
        node.client.prepare_store("gpu0", node.namespace, [run("b")], lease_id=b"i" * 16)
    )
    await gate.reached()

    left = await node.client.drain()
    head = node.node.log.head
    gate.let_through()

    assert left.copies == 1
    await asyncio.wait({storing})
    assert node.node.log.head == head


async def test_draining_again_joins_the_drain_under_way(serve: Serve, drain: Drain) -> None:
    """Whoever asks gets the answer of the one drain, also when it ended before."""
    node = await serve(drain_timeout=0.3)
    await node.client.prepare_store("cpu0", node.namespace, [run("open")])
    first = await drain(node)

    second = await node.client.drain()
    third = await node.client.drain()

    assert await first == second == third == DrainResponse(leases=1)


async def test_a_drain_goes_on_when_its_caller_leaves(serve: Serve) -> None:
    """A caller that waits no longer takes nothing back."""
    node = await serve(drain_timeout=30)
    prepared = await node.client.prepare_store("cpu0", node.namespace, [run("open")])

    with pytest.raises(DeadlineError, match=r"did not answer within 0\.1 s"):
        await node.client.drain(deadline=0.1)

    assert node.node.closing
    await node.client.release_leases([prepared.lease])
    assert await node.client.drain() == NOTHING_LEFT


@pytest.mark.parametrize("deadline", [0, -1, True, "soon"])
async def test_a_deadline_that_is_none_is_refused(serve: Serve, deadline: object) -> None:
    """A mistake drains nothing."""
    node = await serve()

    with pytest.raises(InvalidArgumentError, match="deadline must be more than 0 seconds"):
        await node.client.drain(deadline=deadline)  # type: ignore[arg-type]

    assert not node.node.closing


async def test_a_stop_joins_a_drain_under_way(serve: Serve, drain: Drain) -> None:
    """Who asked for the drain is answered before the node ends."""
    node = await serve(drain_timeout=30)
    prepared = await node.client.prepare_store("cpu0", node.namespace, [run("open")])
    draining = await drain(node)
    stopping = asyncio.create_task(node.server.drain_and_stop())

    await node.client.release_leases([prepared.lease])

    assert await draining == NOTHING_LEFT
    await asyncio.wait_for(stopping, 10)


async def told(node: Serving, *positions: NodePosition) -> tuple[list[str], tuple[str, str]]:
    """The kinds of messages that a follower gets, and how it is sent off."""
    kinds: list[str] = []

    async def read() -> None:
        async for message in node.client.watch_events(positions=positions):
            kinds.append(message.WhichOneof("kind") or "")  # noqa: PERF401 - the stream breaks

    return kinds, await refused(read())


async def test_a_drained_node_tells_followers_only_what_they_lack(serve: Serve) -> None:
    """Who was away when the last events came gets them; nobody takes the node for a live one."""
    node = await serve(drain_timeout=30)
    await node.store("a")
    log = node.node.log
    behind = Position(epoch=log.epoch, sequence=log.head)
    await node.store("b")
    last = Position(epoch=log.epoch, sequence=log.head)
    await node.client.drain()

    late, complete = [
        await told(node, NodePosition(node_id=node.node.node_id, position=position))
        for position in (behind, last)
    ]
    new = await told(node)

    assert late[0].count("batches") == 1
    assert (late[1], complete, new) == (DRAINING, ([], DRAINING), ([], DRAINING))
