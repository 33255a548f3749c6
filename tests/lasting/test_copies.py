"""Blocks go from memory to files and objects and come back, whole and told of."""

import asyncio
from typing import Any

import pytest

from kvtier.server.tiers.table import READY
from tests.contract.support import cpu_tier, gpu_tier
from tests.lasting.calls import (
    changes,
    copy,
    hashes_of,
    held,
    kept,
    load,
    removed,
    store,
    stored,
    tier_of,
)
from tests.lasting.conftest import MakeNode
from tests.lasting.tiers import fs_tier, obj_tier
from tests.waiting import until

DOWN: dict[str, Any] = {"on_evict": "fs0", "demote_wait": 10, "free_target": 0}
DOWN["promotion_limit"] = 1


async def test_an_evicted_block_becomes_a_file(make_node: MakeNode) -> None:
    """The file is there, and told of, in the batch that takes the block out of memory."""
    local = make_node(gpu_tier(2, **DOWN), fs_tier(4))
    await store(local, 1, 2)

    await store(local, 3)

    assert kept(local.shelves["fs0"], 2)
    assert {stored(2, "fs0"), removed(2, "gpu0", "DEMOTED")} in changes(local)
    assert tier_of(local, "gpu0").counters.demoted == 1


async def test_what_comes_back_from_a_file_stays_there_too(make_node: MakeNode) -> None:
    """A file need not be written again when its block goes down once more."""
    local = make_node(gpu_tier(2, **DOWN), fs_tier(4))
    await store(local, 1, 2)
    await store(local, 3)
    names = set(local.shelves["fs0"].blocks)

    assert await load(local, 2) == ["HIT"]
    before = local.node.log.head
    await store(local, 4)
    await store(local, 5)

    assert names <= set(local.shelves["fs0"].blocks)
    assert {removed(2, "gpu0", "DEMOTED")} <= set.union(*changes(local, before))
    assert stored(2, "fs0") not in set.union(*changes(local, before))


async def test_both_tiers_hold_all_that_was_offered(make_node: MakeNode) -> None:
    """Blocks that the offer found in memory are written through like those that it brought."""
    local = make_node(cpu_tier(4, write_through=["fs0"]), fs_tier(8))
    await store(local, "a", "b", wait=True)
    fs = tier_of(local, "fs0")
    fs.remove([s for s, state in enumerate(fs.table.state) if state == READY][:1], 1)
    before = local.node.log.head

    await store(local, "a", "b", "c", "d", wait=True)

    assert held(local, "fs0") == held(local, "cpu0") == hashes_of("abcd")
    assert kept(local.shelves["fs0"], *"abcd")
    told = [each for batch in changes(local, before) for each in batch]
    assert sorted(tier for _, tier, _, _ in told) == ["cpu0"] * 2 + ["fs0"] * 3


async def test_files_go_on_to_objects(make_node: MakeNode) -> None:
    """A file goes only when the object is there, and told of in the same batch."""
    local = make_node(cpu_tier(1, **DOWN), fs_tier(1, on_evict="obj0", demote_wait=10), obj_tier(4))
    await store(local, 1)
    await store(local, 2)

    await store(local, 3)

    await until(lambda: kept(local.shelves["fs0"], 2))
    assert kept(local.shelves["obj0"], 1)
    assert {stored(1, "obj0"), removed(1, "fs0", "DEMOTED")} in changes(local)


async def test_files_that_vanished_or_changed_are_told_of(make_node: MakeNode) -> None:
    """A copy that finds no file, or a damaged one, says so, and the tier drops the block."""
    local = make_node(cpu_tier(4, write_through=["fs0"]), fs_tier(8))
    await store(local, 1, 2, 3, wait=True)
    cpu, shelf = tier_of(local, "cpu0"), local.shelves["fs0"]
    cpu.remove([s for s, state in enumerate(cpu.table.state) if state == READY], 1)
    names = sorted(shelf.blocks, key=lambda name: name[-4:])
    del shelf.blocks[names[0]]
    shelf.blocks[names[1]] = shelf.blocks[names[1]][:-1] + b"?"

    results = await copy(local, "fs0", "cpu0", 1, 2, 3)

    assert results == ["MISS", "CORRUPT", "COPIED"]
    assert removed(1, "fs0", "LOST") in set.union(*changes(local))
    assert removed(2, "fs0", "CORRUPT") in set.union(*changes(local))
    assert held(local, "cpu0") == hashes_of([3])


async def test_a_damaged_source_writes_no_file(make_node: MakeNode) -> None:
    """Memory that does not match its checksum is dropped and never announced below."""
    local = make_node(cpu_tier(4, write_through=["fs0"]), fs_tier(8))
    await store(local, 1, wait=True)
    before = local.node.log.head
    local.stores[0].arena[:] = bytes(len(local.stores[0].arena))
    fs = tier_of(local, "fs0")
    fs.remove([0], 1)

    assert await copy(local, "cpu0", "fs0", 1) == ["CORRUPT"]

    assert removed(1, "cpu0", "CORRUPT") in set.union(*changes(local, before))
    assert not held(local, "fs0")


@pytest.mark.parametrize("reached", [True, False], ids=["in place", "through scratch"])
async def test_moves_between_memory_and_files(make_node: MakeNode, *, reached: bool) -> None:
    """An explicit move takes the block out of where it was; the oldest makes room for it."""
    local = make_node(gpu_tier(2, **DOWN), fs_tier(4))
    local.stores[0].reached = reached
    await store(local, 1)
    await store(local, 2)

    assert await copy(local, "gpu0", "fs0", 2, move=True) == ["COPIED"]
    assert (held(local, "gpu0"), held(local, "fs0")) == (hashes_of([1]), hashes_of([2]))
    assert removed(2, "gpu0", "DEMOTED") in set.union(*changes(local))
    await store(local, 3)

    assert await copy(local, "fs0", "gpu0", 2, move=True) == ["COPIED"]

    assert (held(local, "gpu0"), held(local, "fs0")) == (hashes_of([2, 3]), hashes_of([1]))
    assert removed(2, "fs0", "PROMOTED") in set.union(*changes(local))
    await until(lambda: kept(local.shelves["fs0"], 1))
    assert await load(local, 2) == ["HIT"]


async def test_small_blocks_take_little_room_beside_large_ones(make_node: MakeNode) -> None:
    """A copy takes the room that its own block needs, not that of the largest there may be."""
    local = make_node(cpu_tier(8, write_through=["fs0"]), fs_tier(8))
    fs = tier_of(local, "fs0")
    # Another namespace's blocks take the whole tier each.
    assert fs.table.room is not None
    fs.table.room.largest = fs.slot_bytes = fs.capacity_bytes
    fs.table.capacity = 1

    await store(local, *range(8), wait=True)
    await asyncio.sleep(0)

    assert held(local, "fs0") == hashes_of(range(8))
    assert fs.counters.evicted == 0
