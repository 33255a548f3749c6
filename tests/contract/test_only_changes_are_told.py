"""An event is told exactly when a block becomes readable or ceases to be, and by nobody else."""

from collections.abc import Awaitable, Callable

import pytest

from kvtier.client import ExhaustedError
from kvtier.v1.result_pb2 import CompleteResult, StoreOutcome, WriteResult

from .conftest import Serve
from .folding import listed
from .following import following
from .support import Serving, block_hash, blocks_of, cpu_tier, namespace, payload, run


async def copy(source: Serving, target: Serving, *blocks: object) -> None:
    """Copy blocks from one node to another, as a client does."""
    loaded = await source.client.load("cpu0", source.namespace, [blocks_of(*blocks)])
    assert all(loaded.payloads)
    await target.client.store(
        "cpu0", target.namespace, [run(*blocks)], [each or b"" for each in loaded.payloads]
    )


async def test_a_store_of_what_is_there_tells_nothing(serve: Serve) -> None:
    """Of an offer that is half there, only the other half is told, and once."""
    node = await serve()
    async with following(node.endpoint) as follower:
        await node.store("a")
        await node.store("a")
        await node.store("a", "b")
        await follower.settle(node.client)

    fold = follower.fold
    assert fold.count("stored", block_hash("a")) == 1
    assert fold.count("stored", block_hash("b")) == 1
    assert len(fold.told) == 2


async def test_a_copy_that_is_there_already_tells_nothing(serve: Serve) -> None:
    """Copying a block to a tier that has it is no event there, and never one of the source."""
    source, target = await serve(), await serve()
    await source.store("a", "b")
    async with following(source.endpoint) as first, following(target.endpoint) as second:
        await copy(source, target, "a")
        await copy(source, target, "a")
        await copy(source, target, "a", "b")
        await first.settle(source.client)
        await second.settle(target.client)

    assert not first.fold.told
    assert second.fold.count("stored", block_hash("a")) == 1
    assert second.fold.count("stored", block_hash("b")) == 1
    assert len(second.fold.told) == 2


async def test_each_tier_tells_of_its_own_copy_only(serve: Serve) -> None:
    """Two tiers of a node that hold the same block tell of its coming and going one by one."""
    node = await serve(cpu_tier(4), cpu_tier(4, name="cpu1"))
    async with following(node.endpoint) as follower:
        await node.store("a", tier="cpu0")
        await node.store("a", tier="cpu1")
        await node.client.delete(node.namespace, [blocks_of("a")], tiers=["cpu0"])
        await follower.settle(node.client)

    changes = [(each.what, each.tier) for each in follower.fold.told]
    assert changes == [("stored", "cpu0"), ("stored", "cpu1"), ("removed", "cpu0")]
    assert {key.tier for key in follower.fold.view} == {"cpu1"}


async def test_a_mismatched_offer_tells_nothing(serve: Serve) -> None:
    """A resident block that is offered with another parent stays as it is, and silent."""
    node = await serve()
    await node.store("p", "a")
    async with following(node.endpoint) as follower:
        report = await node.client.store(
            "cpu0", node.namespace, [run("a")], [payload("something else")]
        )
        await follower.settle(node.client)

    assert report.outcomes == (StoreOutcome.STORE_OUTCOME_MISMATCH,)
    assert not follower.fold.told


async def touch(node: Serving) -> None:
    await node.client.touch(node.namespace, [blocks_of("a", "absent")])


async def look_up(node: Serving) -> None:
    await node.client.lookup(node.namespace, [blocks_of("a", "absent")], include_blocks=True)


async def load(node: Serving) -> None:
    await node.client.load("cpu0", node.namespace, [blocks_of("a", "absent")])


async def pin_and_let_go(node: Serving) -> None:
    prepared = await node.client.prepare_load("cpu0", node.namespace, [blocks_of("a")])
    await node.client.renew_leases([prepared.lease], 5)
    await node.client.complete_load(prepared.lease)
    await node.client.release_leases([prepared.lease])


async def delete_absent(node: Serving) -> None:
    await node.client.delete(node.namespace, [blocks_of("absent")])


async def delete_leased(node: Serving) -> None:
    prepared = await node.client.prepare_load("cpu0", node.namespace, [blocks_of("a")])
    await node.client.delete(node.namespace, [blocks_of("a")])
    await node.client.release_leases([prepared.lease])


async def clear_nothing(node: Serving) -> None:
    other = await node.client.register_namespace(namespace("qwen"))
    await node.client.clear("cpu0", other)


async def offer_too_much(node: Serving) -> None:
    with pytest.raises(ExhaustedError, match="can never take 9 blocks"):
        await node.store(*range(9))


async def reserve_and_delete(node: Serving) -> None:
    prepared = await node.client.prepare_store("cpu0", node.namespace, [run("new")])
    await node.client.delete(node.namespace, [blocks_of("new")], force=True)
    completed = await node.client.complete_store(prepared.lease)
    assert completed.results == [CompleteResult.COMPLETE_RESULT_DELETED]


async def write_other_bytes(node: Serving) -> None:
    prepared = await node.client.prepare_store("cpu0", node.namespace, [run("a", "new")])
    written = await node.client.write_blocks(prepared.lease, {1: payload("new")}, [64, 64])
    assert written == {1: WriteResult.WRITE_RESULT_WRITTEN}
    await node.client.complete_store(prepared.lease, failed_blocks=[1])


NOTHING_CHANGES = [
    touch,
    look_up,
    load,
    pin_and_let_go,
    delete_absent,
    delete_leased,
    clear_nothing,
    offer_too_much,
    reserve_and_delete,
    write_other_bytes,
]


@pytest.mark.parametrize("act", NOTHING_CHANGES, ids=lambda act: act.__name__)
async def test_what_changes_nothing_is_not_told(
    serve: Serve, act: Callable[[Serving], Awaitable[None]]
) -> None:
    """Calls that make no block readable or absent leave the log where it was."""
    node = await serve()
    await node.store("a")
    before, head = await listed(node.client), (await node.client.get_node()).head
    async with following(node.endpoint) as follower:
        await act(node)
        await follower.settle(node.client)

    assert not follower.fold.told
    assert await listed(node.client) == before
    assert (await node.client.get_node()).head == head
