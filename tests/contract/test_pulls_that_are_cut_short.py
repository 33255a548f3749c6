"""Pulls whose caller leaves, whose target is cleared, or whose node stops."""

import asyncio
from typing import Any

import grpc
import grpc.aio
import pytest

from kvtier.client import NotFoundError, UnavailableError
from kvtier.v1.copying_pb2 import CopyBlocksRequest, PeerTier
from kvtier.wire.errors import Reason
from tests.waiting import until

from .conftest import Serve
from .copying import Copied, copy_blocks, nothing_is_held
from .fake_peer import FakePeer, Send, message
from .pulls import all_of, fake, node, pull
from .support import Serving, blocks_of, cpu_tier, gpu_tier, hash_set, payloads, run

__all__ = ["fake", "node"]


async def test_a_caller_that_leaves_ends_the_pull(node: Serving, fake: FakePeer) -> None:
    """The call at the peer is cancelled at once, what came is kept, and the rest given back."""
    sent = asyncio.Event()

    async def act(_hashes: list[bytes], send: Send) -> None:
        await send(message(0, *payloads(0, 1)))
        sent.set()
        await asyncio.Event().wait()

    fake.act = act
    call = asyncio.create_task(pull(node, fake.endpoint, *range(4)))
    await sent.wait()
    await node.comes_to({"ready": 2, "pending": 2})
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)

    await until(lambda: not fake.under_way and not node.node.transfers)
    assert await node.gauges() == {"ready": 2}
    nothing_is_held(node)


async def test_what_came_is_written_through_though_the_caller_left(
    serve: Serve, fake: FakePeer
) -> None:
    """A block that was pulled is a stored block, however the call ended."""

    async def act(_hashes: list[bytes], send: Send) -> None:
        await send(message(0, *payloads(0, 1)))
        await asyncio.Event().wait()

    fake.act = act
    node = await serve(gpu_tier(16, write_through=["cpu0"]), cpu_tier(16), peers=[fake.endpoint])
    call = asyncio.create_task(
        copy_blocks(node, run(*range(4)), peer=(fake.endpoint, "cpu0"), to="gpu0")
    )
    await node.comes_to({"ready": 2, "pending": 2}, "gpu0")
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)

    await node.comes_to({"ready": 2})
    assert await node.held() == hash_set([0, 1])
    assert (await node.tier()).counters.copies_failed == 0
    nothing_is_held(node)


async def test_who_waited_goes_on_when_the_first_caller_leaves(
    node: Serving, fake: FakePeer
) -> None:
    """A caller that leaves takes nobody's blocks with it."""
    first = asyncio.create_task(pull(node, fake.endpoint, 1))
    await until(lambda: fake.asked)
    second = asyncio.create_task(pull(node, fake.endpoint, 1))
    await until(lambda: node.node.transfers == 2)
    fake.act = all_of(1)
    first.cancel()

    copied = await second

    assert copied.results == ["COPIED"]
    assert len(fake.asked) == 2
    await asyncio.gather(first, return_exceptions=True)


async def test_a_deadline_ends_the_pull(node: Serving, fake: FakePeer) -> None:
    """A caller with a deadline is gone when it has passed, and so is its call at the peer."""
    request = CopyBlocksRequest(
        namespace=node.namespace,
        runs=[run(1)],
        to_tier="cpu0",
        from_peer=PeerTier(endpoint=fake.endpoint, tier="cpu0"),
    )
    async with grpc.aio.insecure_channel(node.endpoint) as channel:
        method: Any = channel.unary_stream("/kvtier.v1.TierService/CopyBlocks")
        with pytest.raises(grpc.aio.AioRpcError) as late:
            async for _ in method(request.SerializeToString(), timeout=0.2):
                pass

    assert late.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    await until(lambda: not fake.under_way and not node.node.transfers)
    nothing_is_held(node)


async def test_a_caller_may_give_a_copy_a_time(node: Serving, fake: FakePeer) -> None:
    """The client sets no deadline; a timeout around it ends the call here and at the peer."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await pull(node, fake.endpoint, 1)

    await until(lambda: not fake.under_way and not node.node.transfers)
    nothing_is_held(node)


async def test_a_clear_ends_what_is_on_its_way(node: Serving, fake: FakePeer) -> None:
    """Blocks that had not come are DELETED, and what comes later is not stored."""
    sent, go = asyncio.Event(), asyncio.Event()

    async def act(_hashes: list[bytes], send: Send) -> None:
        await send(message(0, *payloads(0)))
        sent.set()
        await go.wait()
        await send(message(1, *payloads(1, 2)))

    fake.act = act
    call = asyncio.create_task(pull(node, fake.endpoint, 0, 1, 2))
    await sent.wait()
    await node.comes_to({"ready": 1, "pending": 2})
    await node.client.clear("cpu0")
    go.set()
    copied = await call

    assert copied.results == ["COPIED", "DELETED", "DELETED"]
    assert await node.gauges() == {}
    nothing_is_held(node)


async def test_a_namespace_that_is_deleted_gets_no_blocks(node: Serving, fake: FakePeer) -> None:
    """What the peer sends afterwards is refused, and the call says why."""
    go = asyncio.Event()

    async def act(_hashes: list[bytes], send: Send) -> None:
        await go.wait()
        await send(message(0, *payloads(0)))

    fake.act = act
    call = asyncio.create_task(pull(node, fake.endpoint, 0))
    await until(lambda: fake.asked)
    await node.client.delete_namespace(node.namespace)
    go.set()
    with pytest.raises(NotFoundError) as refused:
        await call

    assert refused.value.reason == Reason.NAMESPACE_UNKNOWN
    nothing_is_held(node)
    assert len(node.node.spaces) == 0


async def test_a_block_deleted_by_force_does_not_come(node: Serving, fake: FakePeer) -> None:
    """A forced delete of one block leaves those around it alone."""
    sent, go = asyncio.Event(), asyncio.Event()

    async def act(_hashes: list[bytes], send: Send) -> None:
        await send(message(0, *payloads(0)))
        sent.set()
        await go.wait()
        await send(message(1, *payloads(1, 2)))

    fake.act = act
    call = asyncio.create_task(pull(node, fake.endpoint, 0, 1, 2))
    await sent.wait()
    await node.comes_to({"ready": 1, "pending": 2})
    await node.client.delete(node.namespace, [blocks_of(1)], force=True)
    go.set()
    copied = await call

    assert copied.results == ["COPIED", "DELETED", "COPIED"]
    assert await node.held() == hash_set([0, 2])
    nothing_is_held(node)


async def test_blocks_on_their_way_are_pending(node: Serving, fake: FakePeer) -> None:
    """A lookup says so once the peer has answered, and the lease tells whose they are."""
    sent = asyncio.Event()

    async def act(_hashes: list[bytes], send: Send) -> None:
        await send(message(0, *payloads(1)))
        sent.set()
        await asyncio.Event().wait()

    fake.act = act
    call = asyncio.create_task(pull(node, fake.endpoint, 1, 2))
    await sent.wait()
    await node.comes_to({"ready": 1, "pending": 1})

    assert await node.look_up(1, 2) == ["HIT", "HIT_PENDING"]
    assert [lease.owner for lease in node.node.leases] == [f"copy from {fake.endpoint}"]
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)


async def test_a_stop_waits_for_pulls_and_begins_no_step(serve: Serve, fake: FakePeer) -> None:
    """A drain lets the step under way end; the caller is told why no other began."""
    go = asyncio.Event()

    async def act(hashes: list[bytes], send: Send) -> None:
        await go.wait()
        await send(message(0, *payloads(*range(len(hashes)))))

    fake.act = act
    node = await serve(cpu_tier(8), peers=[fake.endpoint], drain_timeout=10)
    copied = Copied()
    call = asyncio.create_task(pull(node, fake.endpoint, *range(4), into=copied))
    await until(lambda: fake.asked)

    stop = asyncio.create_task(node.server.drain_and_stop())
    await until(lambda: node.node.closing)
    # Some turns of what looks whether work has ended.
    await asyncio.sleep(0.1)
    assert node.node.busy
    assert not stop.done()
    go.set()
    with pytest.raises(UnavailableError, match="draining"):
        await call
    await stop

    assert copied.told == {0: "COPIED", 1: "COPIED"}
    assert len(fake.asked) == 1


async def test_a_stop_does_not_wait_for_a_peer_for_ever(serve: Serve, fake: FakePeer) -> None:
    """When drain_timeout has passed a pull is cancelled, at the peer too."""
    node = await serve(cpu_tier(8), peers=[fake.endpoint], drain_timeout=0.2, peer_timeout=60)
    call = asyncio.create_task(pull(node, fake.endpoint, 1))
    await until(lambda: fake.asked)

    async with asyncio.timeout(5):
        await node.server.drain_and_stop()

    with pytest.raises(UnavailableError):
        await call
    await until(lambda: not fake.under_way)
    nothing_is_held(node)
