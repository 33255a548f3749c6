"""A store that did not succeed is told by nobody, on no tier, at no time."""

from collections.abc import Awaitable, Callable

import pytest

from kvtier.client import AbortedError, NodeClient, UnavailableError
from kvtier.v1.block_pb2 import Lease
from kvtier.v1.result_pb2 import CompleteResult, WriteResult
from kvtier.v1.tier_service_pb2 import (
    PrepareStoreRequest,
)
from kvtier.v1.transfer_service_pb2 import WriteBlocksRequest, WriteBlocksResponse
from tests.waiting import until

from .conftest import Serve
from .folding import listed
from .following import following
from .support import Serving, block_hash, blocks_of, cpu_tier, gpu_tier, payload, run, words
from .wire import METHODS, wire

WRITE = METHODS["TransferService.WriteBlocks"]


async def begin(node: Serving, *, write: bool = True) -> Lease:
    """Reserve room for A, and fill it."""
    prepared = await node.client.prepare_store("cpu0", node.namespace, [run("A")])
    if write:
        await node.client.write_blocks(prepared.lease, {0: payload("A")}, [64])
    return prepared.lease


async def abort(node: Serving) -> None:
    completed = await node.client.complete_store(await begin(node), failed=True)
    assert words(CompleteResult, completed.results) == ["FAILED"]


async def complete_without_bytes(node: Serving) -> None:
    completed = await node.client.complete_store(await begin(node, write=False))
    assert words(CompleteResult, completed.results) == ["NOT_WRITTEN"]


async def release(node: Serving) -> None:
    lease = await begin(node)
    await node.client.release_leases([lease])
    with pytest.raises(AbortedError, match="released"):
        await node.client.complete_store(lease)


async def let_it_expire(node: Serving) -> None:
    lease = await begin(node)
    node.clock.advance(31)
    with pytest.raises(AbortedError, match="expired"):
        await node.client.complete_store(lease)


async def delete_it_meanwhile(node: Serving) -> None:
    lease = await begin(node)
    await node.client.delete(node.namespace, [blocks_of("A")], force=True)
    completed = await node.client.complete_store(lease)
    assert words(CompleteResult, completed.results) == ["DELETED"]


async def clear_the_tier_meanwhile(node: Serving) -> None:
    lease = await begin(node)
    await node.client.clear("cpu0")
    with pytest.raises(AbortedError, match="clear"):
        await node.client.complete_store(lease)


async def send_other_bytes(node: Serving) -> None:
    lease = (await node.client.prepare_store("cpu0", node.namespace, [run("A")])).lease
    async with wire(node.endpoint) as raw:
        answer = await raw.call(
            WRITE, WriteBlocksRequest(lease=lease, checksums=[1], data=payload("A"))
        )
    (told,) = map(WriteBlocksResponse.FromString, answer.answers)
    assert words(WriteResult, told.results) == ["CORRUPT"]
    await node.client.complete_store(lease)


async def leave_in_the_middle(node: Serving) -> None:
    offer = PrepareStoreRequest(
        tier="cpu0", namespace=node.namespace, runs=[run("A")], lease_id=b"i" * 16, owner="test"
    )
    async with wire(node.endpoint) as raw:
        answer = await raw.call(
            WRITE,
            WriteBlocksRequest(offer=offer).SerializeToString(),
            WriteBlocksRequest(data=payload("A")[:32]).SerializeToString(),
            answers=1,
        )
    assert answer.code == "OK"
    await until(lambda: not node.node.transfers)


FAILURES = [
    abort,
    complete_without_bytes,
    release,
    let_it_expire,
    delete_it_meanwhile,
    clear_the_tier_meanwhile,
    send_other_bytes,
    leave_in_the_middle,
]


@pytest.mark.parametrize("fail", FAILURES, ids=lambda fail: fail.__name__)
async def test_a_store_that_fails_is_never_told(
    serve: Serve, fail: Callable[[Serving], Awaitable[None]]
) -> None:
    """No follower, live or late, and no listing hears of the block; its room is free again."""
    node = await serve(cpu_tier(4), gpu_tier(4))
    async with following(node.endpoint) as follower:
        await fail(node)
        await node.store("other")
        await follower.settle(node.client)
        async with following(node.endpoint) as late:
            assert late.fold.view == follower.fold.view

    assert [each.block_hash for each in follower.fold.told] == [block_hash("other")]
    assert follower.fold.view == await listed(node.client)
    assert await node.gauges() == {"ready": 1}


async def test_the_good_half_of_a_store_is_told_alone(serve: Serve) -> None:
    """Of three blocks of which the caller could not write one, the two others are told."""
    node = await serve()
    async with following(node.endpoint) as follower:
        prepared = await node.client.prepare_store("cpu0", node.namespace, [run("A", "B", "C")])
        bytes_of = {place: payload(block) for place, block in enumerate("ABC")}
        await node.client.write_blocks(prepared.lease, bytes_of, [64] * 3)
        completed = await node.client.complete_store(prepared.lease, failed_blocks=[1])
        await follower.settle(node.client)

    assert words(CompleteResult, completed.results) == ["STORED", "FAILED", "STORED"]
    told = [each.block_hash for each in follower.fold.told]
    assert told == [block_hash("A"), block_hash("C")]
    loaded = await node.client.load("cpu0", node.namespace, [blocks_of(*"ABC")])
    assert list(loaded.payloads) == [payload("A"), None, payload("C")]


async def test_a_copy_to_a_node_out_of_reach_is_told_by_the_source_only(serve: Serve) -> None:
    """The store that succeeded stays told; the copy that failed shows nowhere."""
    node, gone = await serve(), await serve()
    await gone.server.drain_and_stop()
    async with (
        NodeClient(gone.endpoint, timeout=1) as unreachable,
        following(node.endpoint) as follower,
    ):
        await node.store("D")
        loaded = await node.client.load("cpu0", node.namespace, [blocks_of("D")])
        with pytest.raises(UnavailableError):
            await unreachable.prepare_store("cpu0", gone.namespace, [run("D")])
        await follower.settle(node.client)

    assert list(loaded.payloads) == [payload("D")]
    assert [(e.what, e.tier) for e in follower.fold.told] == [("stored", "cpu0")]
    assert follower.fold.view == await listed(node.client)
    assert await node.gauges() == {"ready": 1}
