"""Files and objects end to end: stored, brought up, found again after a restart, bounded."""

from typing import Any

import pytest

from kvtier.v1.result_pb2 import ReadResult, WriteResult
from tests.waiting import until

from .conftest import Follow, Serve
from .folding import listed
from .grounds import Ground
from .support import (
    ANY_TIER,
    BLOCK_BYTES,
    Serving,
    blocks_of,
    cpu_tier,
    hash_set,
    payloads,
    run,
    words,
)
from .ways import Store

CPU = "cpu0"
CHAIN = tuple(range(12))
SHAPES: dict[str, dict[str, Any]] = {
    "down": {"on_evict": ANY_TIER, "free_target": 0, "demote_wait": 10},
    "through": {"write_through": [ANY_TIER]},
}


async def copied(node: Serving) -> None:
    """Wait until nothing is copied, written or deleted any more."""
    await until(lambda: not node.node.tiering.jobs)
    for tier in node.node.tiers:
        if tier.keeping is not None:
            await tier.keeping.store.flush()


async def brought_up(node: Serving, *blocks: object) -> list[bytes | None]:
    """Load blocks from the host tier, from the slower one first where they are only there."""
    answer = await node.client.prepare_load(
        CPU, node.namespace, [blocks_of(*blocks)], promote=True, wait=True
    )
    read = await node.client.read_blocks(answer.lease, [BLOCK_BYTES] * len(blocks))
    await node.client.complete_load(answer.lease)
    return list(read.payloads)


async def test_what_was_stored_is_there_after_a_restart(
    serve: Serve, follow: Follow, store: Store, ground: Ground
) -> None:
    """Listed, told to new followers and loaded as before; nothing is written again."""
    node = await serve(ground.tier())
    report = await store(node.client, ANY_TIER, node.namespace, [run(*CHAIN)], payloads(*CHAIN))
    before = await listed(node.client)
    written = {name: ground.written(name) for name in ground.names()}

    node = await node.again(serve, ground.tier())

    assert words(WriteResult, report.results) == ["STORED"] * len(CHAIN)
    assert await listed(node.client) == before
    assert (await follow(node)).fold.view == before
    assert await node.load(*CHAIN, tier=ANY_TIER) == payloads(*CHAIN)
    assert len(written) == len(CHAIN)
    assert {name: ground.written(name) for name in ground.names()} == written
    assert await node.gauges(ANY_TIER) == {"ready": len(CHAIN)}


@pytest.mark.parametrize("shape", SHAPES)
async def test_what_went_down_comes_up_after_a_restart(
    serve: Serve, follow: Follow, ground: Ground, shape: str
) -> None:
    """Memory is empty then; the blocks below are promoted, and followers see both tiers."""
    tiers = [cpu_tier(4, promotion_limit=1, **SHAPES[shape]), ground.tier()]
    node = await serve(*tiers)
    for block in CHAIN:
        await node.store(block)
        await copied(node)
    below = CHAIN[:-4] if shape == "down" else CHAIN
    assert await node.held(ANY_TIER) == hash_set(below)
    assert await brought_up(node, *below[:3]) == payloads(*below[:3])
    await copied(node)
    below = tuple(block for block in CHAIN if block not in {9, 10, 11})
    lower = await node.held(ANY_TIER)

    node = await node.again(serve, *tiers)
    follower = await follow(node)

    assert await node.held(ANY_TIER) == lower >= hash_set(below)
    assert await node.held(CPU) == set()
    assert await brought_up(node, *below[:4]) == payloads(*below[:4])
    await copied(node)
    await follower.settle()
    assert follower.fold.view == await listed(node.client)
    assert len(ground.names()) == len(lower)


async def test_a_smaller_capacity_keeps_the_newest(serve: Serve, ground: Ground) -> None:
    """What does not fit any more is gone from the ground too, and the rest is exact."""
    node = await serve(ground.tier())
    for block in CHAIN:
        await node.store(block, tier=ANY_TIER)
    used = (await node.tier(ANY_TIER)).used_bytes

    node = await node.again(serve, ground.tier(capacity=used // 2))
    await copied(node)

    newest = CHAIN[len(CHAIN) // 2 :]
    assert await node.held(ANY_TIER) == hash_set(newest)
    assert len(ground.names()) == len(newest)
    assert await node.load(*newest, tier=ANY_TIER) == payloads(*newest)
    await node.store("next", tier=ANY_TIER)
    assert await node.look_up("next") == ["HIT"]
    assert (await node.tier(ANY_TIER)).used_bytes <= used // 2


async def test_cleared_blocks_stay_away(serve: Serve, ground: Ground) -> None:
    """Cleared in every tier, blocks are a miss everywhere, and after a restart still."""
    tiers = [cpu_tier(20, write_through=[ANY_TIER]), ground.tier()]
    node = await serve(*tiers)
    await node.store(*CHAIN)
    await copied(node)
    assert len(ground.names()) == len(CHAIN)

    cleared = [await node.client.clear(name) for name in (CPU, ANY_TIER)]

    assert [each.removed_blocks for each in cleared] == [len(CHAIN)] * 2
    assert ground.names() == set()
    for life in range(2):
        assert await node.look_up(*CHAIN) == ["MISS"] * len(CHAIN), life
        assert await node.held(CPU) == await node.held(ANY_TIER) == set()
        assert await brought_up(node, *CHAIN) == [None] * len(CHAIN)
        node = await node.again(serve, *tiers)


@pytest.mark.parametrize("by", ["delete", "clear"])
async def test_what_is_removed_by_force_is_gone_for_its_readers_too(
    serve: Serve, follow: Follow, ground: Ground, by: str
) -> None:
    """Nothing of it lies there once that is answered; who leases it is told of a miss."""
    node = await serve(ground.tier())
    await node.store("A", tier=ANY_TIER)
    wanted = [blocks_of("A")]
    lease = (await node.client.prepare_load(ANY_TIER, node.namespace, wanted)).lease
    follower = await follow(node)

    if by == "delete":
        await node.client.delete(node.namespace, wanted, force=True)
    else:
        await node.client.clear(ANY_TIER, force=True)

    assert ground.names() == set()
    read = await node.client.read_blocks(lease, [BLOCK_BYTES])
    assert words(ReadResult, read.results) == ["MISS"]
    assert len(await follower.news()) == 1, "it is removed, and not lost as well"
    assert (await node.tier(ANY_TIER)).counters.lost == 0
    await node.client.complete_load(lease)
    await node.store("A", tier=ANY_TIER)
    assert await node.load("A", tier=ANY_TIER) == payloads("A")
