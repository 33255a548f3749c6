"""A shelf that fails or stands still costs its own blocks, and no more time than its deadline."""

import asyncio
import time
from functools import partial
from typing import Any

import numpy as np
import pytest
from xxhash import xxh3_64_intdigest

from kvtier.server.operations.storing import prepare_store
from kvtier.server.tiers.table import READY
from kvtier.v1.block_pb2 import REMOVAL_REASON_DELETED
from kvtier.v1.tier_service_pb2 import PrepareStoreResponse
from kvtier.wire.errors import KvtierError, Reason
from tests.contract.support import BLOCK_BYTES, cpu_tier, payload, run
from tests.lasting.calls import (
    changes,
    copy,
    hashes_of,
    held,
    kept,
    load,
    prepare,
    removed,
    store,
    tier_of,
)
from tests.lasting.conftest import MakeNode
from tests.lasting.tiers import GRAIN, fs_tier, obj_tier
from tests.unit.server.support import LocalNode
from tests.waiting import until

DOWN: dict[str, Any] = {"on_evict": "fs0", "free_target": 0, "promotion_limit": 1}
THROUGH: dict[str, Any] = {"write_through": ["fs0"], "promotion_limit": 1}


def drop(local: LocalNode, name: str = "cpu0") -> None:
    """Delete all blocks of a tier."""
    tier = tier_of(local, name)
    slots = [slot for slot, state in enumerate(tier.table.state) if state == READY]
    tier.remove(slots, REMOVAL_REASON_DELETED)


async def test_a_store_does_not_wait_for_a_shelf_that_stands_still(make_node: MakeNode) -> None:
    """It waits as long as `demote_wait`; then the block is dropped, and counted."""
    local = make_node(cpu_tier(4, **DOWN, demote_wait=0.05), fs_tier(8, io_timeout=1.5))
    await store(local, 1, 2, 3, 4)
    local.shelves["fs0"].gate.clear()

    started = time.monotonic()
    await store(local, 5)

    assert time.monotonic() - started < 1.2
    cpu = tier_of(local, "cpu0")
    assert cpu.counters.dropped == 1
    await until(lambda: not local.node.tiering.jobs)
    assert (cpu.occupancy.leased, cpu.occupancy.copying) == (0, {})
    assert not tier_of(local, "fs0").accepts


async def test_few_blocks_are_held_for_a_shelf_that_stands_still(make_node: MakeNode) -> None:
    """However many stores come meanwhile, two steps are on their way and hold a part of memory."""
    local = make_node(cpu_tier(16, **DOWN, demote_wait=0), fs_tier(64, io_timeout=5))
    local.shelves["fs0"].gate.clear()

    for i in range(40):
        await store(local, i)

    cpu = tier_of(local, "cpu0")
    assert cpu.occupancy.leased <= 8
    assert cpu.counters.refused == 0
    local.shelves["fs0"].gate.set()
    await until(lambda: not local.node.tiering.jobs)


async def test_slots_that_a_late_thread_may_fill_are_not_used(make_node: MakeNode) -> None:
    """They are quarantined until it came back, so that it spoils no other block."""
    local = make_node(cpu_tier(2, **THROUGH), fs_tier(8, io_timeout=0.2))
    local.stores[0].reached = True
    await store(local, 1, 2, wait=True)
    drop(local)
    local.shelves["fs0"].gate.clear()

    assert await load(local, 1, 2) == ["MISS", "MISS"]

    cpu = tier_of(local, "cpu0")
    assert (cpu.occupancy.quarantined, cpu.table.free) == (1, 1)
    with pytest.raises(KvtierError) as refused:
        await store(local, 3, 4)
    assert refused.value.reason == Reason.TIER_FULL
    local.shelves["fs0"].gate.set()
    await until(lambda: cpu.table.free == 2)
    await store(local, 3, 4)
    assert await load(local, 3, 4) == ["HIT", "HIT"]


async def test_room_of_a_file_that_may_yet_be_written_is_not_used(make_node: MakeNode) -> None:
    """The slot is quarantined until the thread came back; no file of it is left behind."""
    local = make_node(cpu_tier(4, **THROUGH), fs_tier(2, io_timeout=0.2))
    fs, shelf = tier_of(local, "fs0"), local.shelves["fs0"]
    shelf.gate.clear()
    await store(local, 1, wait=True)

    assert (fs.occupancy.quarantined, fs.table.free) == (1, 1)
    assert fs.counters.copies_failed == 1
    assert tier_of(local, "cpu0").occupancy.leased == 0
    shelf.gate.set()
    await until(lambda: fs.table.free == 2)
    await fs.store.flush()  # type: ignore[union-attr]

    assert not shelf.blocks
    assert not fs.occupancy.quarantined


async def test_while_a_shelf_does_not_answer_loads_fail_at_once(make_node: MakeNode) -> None:
    """One load waits for the deadline; those after it do not, until the shelf answers again."""
    local = make_node(cpu_tier(4, **THROUGH), fs_tier(8, io_timeout=1.5))
    await store(local, 1, 2, wait=True)
    drop(local)
    shelf, fs = local.shelves["fs0"], tier_of(local, "fs0")
    shelf.gate.clear()
    assert fs.keeping is not None
    assert await load(local, 1) == ["MISS"]

    started = time.monotonic()
    assert await load(local, 1, 2) == ["MISS", "MISS"]
    assert await copy(local, "fs0", "cpu0", 1, 2) == ["FAILED", "FAILED"]

    assert time.monotonic() - started < 1.2
    assert held(local, "fs0") == hashes_of([1, 2])
    shelf.gate.set()
    store_of_files = fs.keeping.store
    await until(lambda: not store_of_files.stands_still)
    assert await load(local, 1, 2) == ["HIT", "HIT"]


async def test_another_tier_stands_in_for_one_that_does_not_answer(make_node: MakeNode) -> None:
    """What both slower tiers have comes from the one that answers."""
    local = make_node(
        cpu_tier(4, write_through=["fs0", "obj0"]), fs_tier(8, io_timeout=0.2), obj_tier(8)
    )
    await store(local, 1, wait=True)
    drop(local)
    local.shelves["fs0"].gate.clear()
    assert await load(local, 1) == ["RETRY"]

    assert await load(local, 1) == ["HIT"]


async def test_a_read_only_tier_takes_nothing_and_gives_what_it_has(make_node: MakeNode) -> None:
    """Blocks that would go down are dropped at once, copies to it refused, and loads go on."""
    local = make_node(cpu_tier(2, **DOWN, demote_wait=10), fs_tier(8))
    await store(local, 1, 2)
    await store(local, 3)
    fs, cpu = tier_of(local, "fs0"), tier_of(local, "cpu0")
    assert fs.keeping is not None
    fs.keeping.store.health.fault("no space left on device")

    with pytest.raises(KvtierError) as refused:
        await copy(local, "cpu0", "fs0", 3)
    await store(local, 4)

    assert refused.value.reason == Reason.TIER_READ_ONLY
    assert cpu.counters.dropped == 1
    assert kept(local.shelves["fs0"], 2)
    assert await load(local, 2) == ["HIT"]
    assert await copy(local, "fs0", "cpu0", 2, move=True) == ["PRESENT"]
    assert held(local, "fs0") == hashes_of([2])


async def test_copies_through_to_a_read_only_tier_are_counted(make_node: MakeNode) -> None:
    """They are not tried, and whoever waits for them does not wait."""
    local = make_node(cpu_tier(4, **THROUGH), fs_tier(8))
    fs = tier_of(local, "fs0")
    assert fs.keeping is not None
    fs.keeping.store.health.fault("input/output error")

    await store(local, 1, 2, wait=True)

    assert fs.counters.copies_failed == 2
    assert not local.shelves["fs0"].blocks


async def test_what_a_recovering_tier_may_have_is_not_said_to_be_missing(
    make_node: MakeNode,
) -> None:
    """A copy from it fails for blocks that it has not found yet, and a copy to it is refused."""
    local = make_node(cpu_tier(4, **THROUGH), fs_tier(8))
    await store(local, 1, wait=True)
    drop(local)
    fs = tier_of(local, "fs0")
    assert fs.keeping is not None
    fs.keeping.store.health.recovering = True

    assert await copy(local, "fs0", "cpu0", 1, 2) == ["COPIED", "FAILED"]
    with pytest.raises(KvtierError) as refused:
        await copy(local, "cpu0", "fs0", 1)

    assert refused.value.reason == Reason.TIER_RECOVERING


async def test_a_write_that_fails_leaves_the_block_where_it_is(make_node: MakeNode) -> None:
    """Nothing is announced of it, and it can be copied when the shelf works again."""
    local = make_node(cpu_tier(4, **THROUGH), fs_tier(8))
    shelf, fs = local.shelves["fs0"], tier_of(local, "fs0")
    shelf.trouble = "input/output error"
    await store(local, 1, wait=True)

    assert fs.counters.copies_failed == 1
    assert not held(local, "fs0")
    assert held(local, "cpu0") == hashes_of([1])
    # What was left of it is tried to be deleted.
    await asyncio.sleep(0.05)
    shelf.trouble = ""
    assert fs.keeping is not None
    fs.keeping.store.health.heal()
    assert await copy(local, "cpu0", "fs0", 1) == ["COPIED"]
    assert kept(shelf, 1)


async def test_a_tier_that_stands_still_holds_up_no_other(make_node: MakeNode) -> None:
    """Of two hundred stores all reach the files, while objects stand still; loads go on."""
    local = make_node(
        cpu_tier(16, write_through=["obj0", "fs0"], promotion_limit=1),
        fs_tier(256),
        obj_tier(256, io_timeout=0.5),
    )
    local.shelves["obj0"].gate.clear()
    fs, obj = tier_of(local, "fs0"), tier_of(local, "obj0")

    def reaches(blocks: int) -> bool:
        return fs.occupancy.ready >= blocks

    for i in range(200):
        await store(local, i)
        await until(partial(reaches, i - 8))
    await until(lambda: fs.occupancy.ready == 200)

    assert await load(local, 3) == ["HIT"]
    assert (fs.counters.written_through, fs.counters.copies_failed) == (200, 0)
    await until(lambda: not local.node.tiering.jobs)
    assert obj.counters.copies_failed == 200
    assert tier_of(local, "cpu0").occupancy.leased == 0


async def test_a_copy_that_ends_late_changes_nothing(make_node: MakeNode) -> None:
    """A block that was deleted while its copy stood still is in neither tier afterwards."""
    local = make_node(cpu_tier(4, **THROUGH), fs_tier(8, io_timeout=5))
    shelf = local.shelves["fs0"]
    shelf.gate.clear()
    await store(local, 1)
    await until(lambda: tier_of(local, "fs0").occupancy.pending == 1)
    drop(local)
    shelf.gate.set()
    await until(lambda: not local.node.tiering.jobs)

    assert not held(local, "cpu0")
    assert not held(local, "fs0")
    await until(lambda: not shelf.blocks)


async def test_a_pinned_block_has_its_bytes_while_late_threads_run(make_node: MakeNode) -> None:
    """What is loaded while an older load of the same block stands still is not overwritten."""
    local = make_node(cpu_tier(8, **THROUGH), fs_tier(8, io_timeout=0.2, io_threads=1))
    local.stores[0].reached = True
    await store(local, 1, wait=True)
    drop(local)
    local.shelves["fs0"].gate.clear()
    assert await load(local, 1) == ["MISS"]
    await store(local, 2, 3)
    _, lease = await prepare(local, 2, 3)
    local.shelves["fs0"].gate.set()
    await until(lambda: not tier_of(local, "cpu0").occupancy.quarantined)

    for place, slot in lease.slots.items():
        data = local.tier.arena.read(local.tier.position_of(slot), BLOCK_BYTES)
        assert data == payload([2, 3][place])


async def test_too_much_to_do_is_no_trouble(make_node: MakeNode) -> None:
    """Copies that find no free thread in time fail, and the tier stays as it is."""
    local = make_node(cpu_tier(64, **THROUGH), fs_tier(64, io_timeout=0.4, io_threads=1))
    fs, shelf = tier_of(local, "fs0"), local.shelves["fs0"]
    assert fs.keeping is not None
    slow = [fs.keeping.store._lane.start(lambda _: time.sleep(0.1)) for _ in range(8)]

    await store(local, 1, wait=True)
    await asyncio.gather(*[job.ended for job in slow])

    assert fs.counters.copies_failed == 1
    assert fs.accepts
    assert not shelf.blocks


async def test_memory_that_fails_leaves_no_block_below(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source that cannot be read is a copy that failed, and the tier below is fine."""
    local = make_node(cpu_tier(4, **THROUGH), fs_tier(8))

    def fail(_positions: object, _blocks: object) -> None:
        raise OSError("the device is gone")

    monkeypatch.setattr(local.stores[0], "read_into", fail)
    await store(local, 1, wait=True)

    assert tier_of(local, "fs0").counters.copies_failed == 1
    assert tier_of(local, "fs0").accepts
    assert removed(1, "cpu0", "CORRUPT") not in set.union(*changes(local))


async def test_scratch_memory_is_bounded(make_node: MakeNode) -> None:
    """Where threads cannot reach the memory, few copies of a tier are on their way at one time."""
    local = make_node(cpu_tier(32, **THROUGH), fs_tier(32, io_timeout=5, io_threads=1))
    await store(local, *range(20), wait=True)
    drop(local)
    shelf, keeping = local.shelves["fs0"], tier_of(local, "fs0").keeping
    assert keeping is not None
    shelf.gate.clear()

    loads = [asyncio.create_task(load(local, block)) for block in range(20)]
    await asyncio.sleep(0.1)
    waiting = keeping.store._lane._queue.qsize()
    shelf.gate.set()

    assert await asyncio.gather(*loads) == [["HIT"]] * 20
    assert waiting < 8


async def test_nothing_leaves_a_tier_that_is_read_only(make_node: MakeNode) -> None:
    """Not even to a tier below that takes it."""
    local = make_node(fs_tier(4, on_evict="obj0", demote_wait=1, free_target=0.5), obj_tier(8))
    fs = tier_of(local, "fs0")
    assert fs.keeping is not None
    slots = [slot for block in range(4) for slot in await store_files(local, block)]
    fs.keeping.store.health.fault("read-only file system")

    assert await local.node.tiering.demoter.demote(fs, 2, ()) is None
    await local.node.tiering.demoter.room_in(fs, [GRAIN] * 2)

    assert [fs.table.state[slot] for slot in slots] == [READY] * 4


async def store_files(local: LocalNode, block: object) -> list[int]:
    """Store a block in the first tier, which is one of files; return its slot."""
    request = local.offer(run(block))
    request.tier = "fs0"
    answer = PrepareStoreResponse.FromString(await prepare_store(local.node, request))
    lease, keeping = local.node.leases.get(answer.lease.id), local.tier.keeping
    assert lease is not None
    assert keeping is not None
    slots, data = list(lease.slots.values()), payload(block)
    checksums = [xxh3_64_intdigest(data)]
    await keeping.save(slots, checksums, [np.frombuffer(data, np.uint8)]).outcomes()
    local.tier.mark_written(slots, checksums)
    local.complete(lease)
    return slots
