"""What a delete does to blocks that somebody holds: nothing, or with force, their end at once."""

import pytest

from kvtier.client import NotFoundError
from kvtier.v1.result_pb2 import CompleteResult, DeleteResult, LookupResult, WriteResult

from .conftest import Follow, Serve
from .folding import listed
from .support import (
    ANY_TIER,
    BLOCK_BYTES,
    MakeTier,
    block_hash,
    blocks_of,
    cpu_tier,
    gpu_tier,
    hash_set,
    payload,
    payloads,
    run,
    words,
)
from .ways import Store


async def test_a_leased_block_is_busy_and_the_others_go(
    serve: Serve, follow: Follow, any_tier: MakeTier
) -> None:
    """Without force each block is answered by itself: busy, absent or deleted."""
    node = await serve(any_tier(4))
    await node.store("pinned", "free", tier=ANY_TIER)
    await node.client.prepare_load(ANY_TIER, node.namespace, [blocks_of("pinned")])
    await node.client.prepare_store(ANY_TIER, node.namespace, [run("written")])
    follower = await follow(node)

    answer = await node.client.delete(
        node.namespace, [blocks_of("absent", "pinned", "written", "free")]
    )

    assert words(DeleteResult, answer.tiers[0].results) == [
        "NOT_FOUND",
        "BUSY",
        "BUSY",
        "DELETED",
    ]
    assert [each.block_hash for each in await follower.news()] == [block_hash("free")]
    assert await node.gauges(ANY_TIER) == {"ready": 1, "leased": 1, "pending": 1}


async def test_with_force_a_pinned_block_is_gone_for_all_but_its_readers(
    serve: Serve, follow: Follow, memory_tier: MakeTier
) -> None:
    """No lookup, listing or new lease finds it; who has it pinned still reads it, exact."""
    node = await serve(memory_tier(2))
    await node.store("A", tier=ANY_TIER)
    wanted = (ANY_TIER, node.namespace, [blocks_of("A")])
    leases = [(await node.client.prepare_load(*wanted)).lease for _ in range(2)]
    follower = await follow(node)

    answer = await node.client.delete(node.namespace, [blocks_of("A")], force=True)
    late = await node.client.prepare_load(*wanted)
    reads = [await node.client.read_blocks(lease, [BLOCK_BYTES]) for lease in leases]

    assert words(DeleteResult, answer.tiers[0].results) == ["DELETED"]
    told = [(each.what, each.reason) for each in await follower.news()]
    assert told == [("removed", "DELETED")]
    assert follower.fold.view == await listed(node.client) == {}
    assert await node.look_up("A") == ["MISS"]
    assert words(LookupResult, late.results) == ["MISS"]
    assert await node.load("A", tier=ANY_TIER) == [None]
    with pytest.raises(NotFoundError):
        await node.client.describe_block(node.namespace, 0, b"", block_hash("A"))
    assert [list(read.payloads) for read in reads] == [payloads("A")] * 2


@pytest.mark.parametrize("last", ["completed", "released", "expired"])
async def test_the_slot_of_a_deleted_block_is_free_with_its_last_lease(
    serve: Serve, follow: Follow, any_tier: MakeTier, last: str
) -> None:
    """One lease after the other ends; only then the room is used, and nothing more is told."""
    node = await serve(any_tier(1))
    await node.store("A", tier=ANY_TIER)
    wanted = (ANY_TIER, node.namespace, [blocks_of("A")])
    first, second = [(await node.client.prepare_load(*wanted)).lease for _ in range(2)]
    await node.client.delete(node.namespace, [blocks_of("A")], force=True)
    follower = await follow(node)

    gauges = [await node.gauges(ANY_TIER)]
    await node.client.complete_load(first)
    gauges.append(await node.gauges(ANY_TIER))
    match last:
        case "completed":
            await node.client.complete_load(second)
        case "released":
            await node.client.release_leases([second])
        case "expired":
            node.clock.advance(30)
    gauges.append(await node.gauges(ANY_TIER))

    assert gauges == [{"draining": 1}, {"draining": 1}, {}]
    assert await follower.news() == []
    await node.store("B", tier=ANY_TIER)
    assert await node.load("B", tier=ANY_TIER) == payloads("B")


async def test_a_deleted_block_may_be_stored_anew_beside_its_old_copy(
    serve: Serve, follow: Follow, memory_tier: MakeTier, store: Store
) -> None:
    """The new copy takes a slot of its own; readers of the old one keep reading the old bytes."""
    node = await serve(memory_tier(2))
    await node.store("A", tier=ANY_TIER)
    wanted = (ANY_TIER, node.namespace, [blocks_of("A")])
    old = (await node.client.prepare_load(*wanted)).lease
    follower = await follow(node)
    await node.client.delete(node.namespace, [blocks_of("A")], force=True)

    report = await store(
        node.client, ANY_TIER, node.namespace, [run("A")], [payload("the second A")]
    )
    new = (await node.client.prepare_load(*wanted)).lease
    reads = [await node.client.read_blocks(lease, [BLOCK_BYTES]) for lease in (old, new)]
    during = await node.gauges(ANY_TIER)
    await node.client.complete_load(old)

    assert words(WriteResult, report.results) == ["STORED"]
    assert [list(read.payloads) for read in reads] == [payloads("A"), payloads("the second A")]
    assert during == {"ready": 1, "leased": 1, "draining": 1}
    assert await node.gauges(ANY_TIER) == {"ready": 1, "leased": 1}
    assert [each.what for each in await follower.news()] == ["removed", "stored"]


@pytest.mark.parametrize("when", ["before", "after"])
async def test_with_force_a_block_is_taken_from_its_writer(
    serve: Serve, follow: Follow, any_tier: MakeTier, when: str
) -> None:
    """Deleted before or after its bytes came, it is not published, and its writer is told."""
    node = await serve(any_tier(2))
    follower = await follow(node)
    offer = (ANY_TIER, node.namespace, [run("A", "B")])
    lease = (await node.client.prepare_store(*offer)).lease
    both = dict(enumerate(payloads("A", "B")))

    if when == "after":
        await node.client.write_blocks(lease, both, [BLOCK_BYTES] * 2)
    answer = await node.client.delete(node.namespace, [blocks_of("A")], force=True)
    found = await node.look_up("A", "B")
    if when == "before":
        written = await node.client.write_blocks(lease, both, [BLOCK_BYTES] * 2)
        assert words(WriteResult, written.values()) == ["ABORTED", "WRITTEN"]
    completed = await node.client.complete_store(lease)

    assert words(DeleteResult, answer.tiers[0].results) == ["DELETED"]
    assert found == ["MISS", "HIT_PENDING"]
    assert words(CompleteResult, completed.results) == ["DELETED", "STORED"]
    assert [(each.what, each.block_hash) for each in await follower.news()] == [
        ("stored", block_hash("B"))
    ]
    assert await node.gauges(ANY_TIER) == {"ready": 1}


async def test_a_pin_in_one_tier_makes_no_other_busy(serve: Serve) -> None:
    """A block that is pinned in one tier is deleted from the others."""
    node = await serve(gpu_tier(2), cpu_tier(2))
    for tier in ("gpu0", "cpu0"):
        await node.store("A", tier=tier)
    await node.client.prepare_load("gpu0", node.namespace, [blocks_of("A")])

    answer = await node.client.delete(node.namespace, [blocks_of("A")])

    told = {each.tier: words(DeleteResult, each.results) for each in answer.tiers}
    assert told == {"gpu0": ["BUSY"], "cpu0": ["DELETED"]}
    assert (await node.held("gpu0"), await node.held("cpu0")) == (hash_set("A"), set())
