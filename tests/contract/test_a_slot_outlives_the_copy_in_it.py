"""A slot in which bytes are still being copied is given to nobody, however its lease ended."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kvtier.client import AbortedError, ExhaustedError, KvtierError
from kvtier.v1.block_pb2 import Lease
from kvtier.v1.result_pb2 import WriteResult

from .conftest import Connect, Follow, Serve
from .gates import LARGE, gated
from .support import ANY_TIER, MakeTier, Serving, blocks_of, namespace, payload, run, words

SIZED = namespace("large", block_bytes=[LARGE])
End = Callable[[Serving, bytes, Lease], Awaitable[object]]


async def expire(node: Serving, fingerprint: bytes, lease: Lease) -> None:
    node.clock.advance(30)


async def release(node: Serving, fingerprint: bytes, lease: Lease) -> object:
    return await node.client.release_leases([lease])


async def fail(node: Serving, fingerprint: bytes, lease: Lease) -> object:
    return await node.client.complete_store(lease, failed=True)


async def complete(node: Serving, fingerprint: bytes, lease: Lease) -> object:
    return await node.client.complete_store(lease)


async def clear(node: Serving, fingerprint: bytes, lease: Lease) -> object:
    return await node.client.clear(ANY_TIER, force=True)


async def delete(node: Serving, fingerprint: bytes, lease: Lease) -> object:
    return await node.client.delete(fingerprint, [blocks_of("A")], force=True)


ENDS: dict[str, End] = {
    "expired": expire,
    "released": release,
    "failed": fail,
    "completed too early": complete,
    "cleared": clear,
    "deleted": delete,
}


async def one_slot(serve: Serve, memory_tier: MakeTier) -> tuple[Serving, bytes]:
    """A node with room for one large block, and the namespace of such blocks."""
    node = await serve({**memory_tier(1), "capacity": LARGE, "slot_bytes": LARGE})
    return node, await node.client.register_namespace(SIZED)


async def expect_no_room(node: Serving, fingerprint: bytes) -> None:
    with pytest.raises(ExhaustedError) as refused:
        await node.client.prepare_store(ANY_TIER, fingerprint, [run("B")])
    assert refused.value.metadata["draining_blocks"] == "1"


async def expect_room(node: Serving, fingerprint: bytes) -> None:
    """The slot comes back, and what is stored there next is read exact."""
    await node.comes_to({}, ANY_TIER)
    await node.client.store(ANY_TIER, fingerprint, [run("B")], [payload("B", LARGE)])
    read = await node.client.load(ANY_TIER, fingerprint, [blocks_of("B")])
    assert list(read.payloads) == [payload("B", LARGE)]
    assert await node.gauges(ANY_TIER) == {"ready": 1}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
async def test_a_slot_under_a_lease_waits_for_the_copy(
    serve: Serve, follow: Follow, memory_tier: MakeTier, end: End
) -> None:
    """The lease ends while its block is copied: no block, no room until then, then both."""
    node, fingerprint = await one_slot(serve, memory_tier)
    follower = await follow(node)
    lease = (await node.client.prepare_store(ANY_TIER, fingerprint, [run("A")])).lease
    with gated(node, ANY_TIER) as gate:
        writing = asyncio.create_task(
            node.client.write_blocks(lease, {0: payload("A", LARGE)}, [LARGE])
        )
        await gate.reached()

        await end(node, fingerprint, lease)
        during = await node.gauges(ANY_TIER)
        await expect_no_room(node, fingerprint)
        gate.let_through()
        (outcome,) = await asyncio.gather(writing, return_exceptions=True)

    assert during == {"draining": 1}
    if isinstance(outcome, BaseException):
        assert isinstance(outcome, AbortedError)
    else:
        assert words(WriteResult, outcome.values()) == ["ABORTED"]
    await node.client.release_leases([lease])
    await expect_room(node, fingerprint)
    assert [each.what for each in await follower.news()] == ["stored"]


@pytest.mark.parametrize("end", ["expired", "cleared", "deleted", "abandoned"])
async def test_a_slot_of_an_offer_waits_for_the_copy(
    serve: Serve, connect: Connect, memory_tier: MakeTier, end: str
) -> None:
    """The same when the call itself holds the lease, also when its caller leaves."""
    node, fingerprint = await one_slot(serve, memory_tier)
    writer = await connect(node)
    with gated(node, ANY_TIER) as gate:
        storing = asyncio.create_task(
            writer.store(ANY_TIER, fingerprint, [run("A")], [payload("A", LARGE)])
        )
        await gate.reached()

        if end == "abandoned":
            storing.cancel()
            await asyncio.gather(storing, return_exceptions=True)
            await node.comes_to({"draining": 1}, ANY_TIER)
        else:
            await ENDS[end](node, fingerprint, Lease())
        during = await node.gauges(ANY_TIER)
        await expect_no_room(node, fingerprint)
        gate.let_through()
        (outcome,) = await asyncio.gather(storing, return_exceptions=True)

    assert during == {"draining": 1}
    if isinstance(outcome, BaseException):
        assert isinstance(outcome, AbortedError | asyncio.CancelledError)
    else:
        assert words(WriteResult, outcome.results) == ["ABORTED"]
    await expect_room(node, fingerprint)


@pytest.mark.parametrize("leased", [True, False], ids=["under a lease", "without a lease"])
@pytest.mark.parametrize("end", ["deleted", "cleared", "expired"])
async def test_a_slot_that_is_being_read_waits_for_the_reader(
    serve: Serve, memory_tier: MakeTier, leased: bool, end: str
) -> None:
    """A block that goes while it is read is gone at once; its bytes stay until the read ended."""
    node, fingerprint = await one_slot(serve, memory_tier)
    await node.client.store(ANY_TIER, fingerprint, [run("A")], [payload("A", LARGE)])
    blocks = [blocks_of("A")]
    pinned = await node.client.prepare_load(ANY_TIER, fingerprint, blocks)
    if not leased:
        await node.client.complete_load(pinned.lease)
    with gated(node, ANY_TIER) as gate:
        reading = asyncio.create_task(
            node.client.read_blocks(pinned.lease, [LARGE])
            if leased
            else node.client.load(ANY_TIER, fingerprint, blocks)
        )
        await gate.reached()

        await ENDS[end](node, fingerprint, pinned.lease)
        with pytest.raises(ExhaustedError):
            await node.client.prepare_store(ANY_TIER, fingerprint, [run("B")])
        gate.let_through()
        (outcome,) = await asyncio.gather(reading, return_exceptions=True)

    if isinstance(outcome, KvtierError):
        assert (leased, end, type(outcome)) == (True, "expired", AbortedError)
    else:
        assert not isinstance(outcome, BaseException)
        assert list(outcome.payloads) == [payload("A", LARGE)]
    await node.client.release_leases([pinned.lease])
    if end == "expired":
        await node.client.delete(fingerprint, blocks)
    await expect_room(node, fingerprint)
