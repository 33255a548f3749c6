"""Removing from a tier of files: answered for when the files are gone, and never by halves."""

import asyncio
import time

import pytest

from kvtier.server import lifecycle
from kvtier.server.config import NodeConfig
from kvtier.server.lasting.record import make_name
from kvtier.server.stores.open import keep_on
from kvtier.server.tiers.table import PENDING
from kvtier.v1 import tier_service_pb2 as pb
from kvtier.v1.removal_pb2 import (
    ClearTierRequest,
    ClearTierResponse,
    DeleteBlocksRequest,
    DeleteNamespaceRequest,
    DeleteNamespaceResponse,
)
from kvtier.v1.result_pb2 import DeleteResult
from kvtier.v1.transfer_service_pb2 import ReadBlocksRequest
from kvtier.wire.errors import KvtierError, Reason
from tests.contract.support import block_hash, cpu_tier
from tests.lasting.memory_shelf import MemoryShelf
from tests.waiting import until

from .conftest import MakeNode
from .shelving import at_rest, fs_tier, heal, keep, shelf_of, target
from .support import TIER, LocalNode, at_once
from .transferring import read, settle

UNREADABLE = [("", Reason.TIER_RECOVERING), ("input/output error", Reason.TIER_READ_ONLY)]


@pytest.fixture
def node(make_node: MakeNode) -> LocalNode:
    """A node with a tier of files above one in memory, which has another block."""
    return make_node(fs_tier(), cpu_tier(4, "cpu1"))


async def delete(node: LocalNode, *blocks: object, force: bool = False) -> dict[str, list[str]]:
    """Delete blocks everywhere; say of each tier what became of them."""
    request = DeleteBlocksRequest(
        namespace=node.namespace, blocks=node.blocks(*blocks), force=force
    )
    answer = await node.tiers.delete_blocks(request)
    prefix = "DELETE_RESULT_"
    return {
        each.tier: [DeleteResult.Name(result).removeprefix(prefix) for result in each.results]
        for each in answer.tiers
    }


async def clear(node: LocalNode, *, force: bool = False) -> ClearTierResponse:
    """Clear the tier of files."""
    return await node.tiers.clear_tier(ClearTierRequest(tier=TIER, force=force))


async def forget(node: LocalNode) -> DeleteNamespaceResponse:
    """Delete the namespace."""
    return await node.tiers.delete_namespace(DeleteNamespaceRequest(namespace=node.namespace))


def make_unwell(node: LocalNode, trouble: str) -> None:
    """Let the tier be in trouble, or without one be recovering."""
    assert node.tier.keeping is not None
    health = node.tier.keeping.store.health
    health.recovering, health.trouble = not trouble, trouble


async def test_a_delete_is_answered_when_the_files_are_gone(node: LocalNode) -> None:
    """Lookups miss the blocks at once; the answer waits for the shelf."""
    await keep(node, "a", "b", "c")
    shelf_of(node).gate.clear()
    deleting = asyncio.create_task(delete(node, "a", "x", "c"))
    await settle()

    assert node.look_up("a", "b", "c") == ["MISS", "HIT", "MISS"]
    assert not deleting.done()
    shelf_of(node).gate.set()

    assert await deleting == {TIER: ["DELETED", "NOT_FOUND", "DELETED"], "cpu1": ["NOT_FOUND"] * 3}
    assert len(shelf_of(node).blocks) == 1
    await at_rest(node)


async def test_a_delete_of_nothing_waits_for_nothing(node: LocalNode) -> None:
    """Nor does one that concerns tiers in memory only."""
    assert at_once(delete(node, "x")) == {TIER: ["NOT_FOUND"], "cpu1": ["NOT_FOUND"]}


@pytest.mark.parametrize(("trouble", "reason"), UNREADABLE)
async def test_a_tier_that_cannot_be_changed_keeps_its_blocks(
    node: LocalNode, trouble: str, reason: Reason
) -> None:
    """A delete says so for each block; a clear and a namespace's end are refused as a whole."""
    await keep(node, "a")
    make_unwell(node, trouble)
    head = node.node.log.head

    told = await delete(node, "a", "x", force=True)
    for attempt in (clear(node, force=True), forget(node)):
        with pytest.raises(KvtierError, match=f"tier {TIER}") as error:
            await attempt
        assert error.value.reason == reason

    assert told == {TIER: ["UNAVAILABLE"] * 2, "cpu1": ["NOT_FOUND"] * 2}
    assert node.node.log.head == head
    assert node.look_up("a") == ["HIT"]
    assert len(shelf_of(node).blocks) == 1


async def test_a_delete_that_the_disk_fails_is_not_told_as_done(node: LocalNode) -> None:
    """The block is gone for lookups; its file goes once the tier is well."""
    await keep(node, "a", "b")
    shelf_of(node).trouble = "input/output error"

    told = await delete(node, "a", "x")

    assert told[TIER] == ["UNAVAILABLE", "NOT_FOUND"]
    assert node.look_up("a", "b") == ["MISS", "HIT"]
    assert len(shelf_of(node).blocks) == 2
    heal(node)
    await at_rest(node)
    assert len(shelf_of(node).blocks) == 1


@pytest.mark.parametrize("what", ["tier", "namespace"])
async def test_a_clear_that_the_disk_fails_says_how_much_is_left(
    node: LocalNode, what: str
) -> None:
    """And what follows from that; the blocks are gone for lookups."""
    await keep(node, "a", "b", "c")
    shelf_of(node).trouble = "input/output error"

    with pytest.raises(KvtierError, match="3 could not be deleted yet") as error:
        await (clear(node) if what == "tier" else forget(node))

    assert error.value.code.name == "UNAVAILABLE"
    assert error.value.reason == Reason.TIER_READ_ONLY
    assert "input/output error" in error.value.message
    assert node.tier.occupancy.ready == 0
    heal(node)
    await at_rest(node)
    assert not shelf_of(node).blocks


@pytest.mark.parametrize("what", ["tier", "namespace"])
async def test_a_clear_empties_the_shelf(node: LocalNode, what: str) -> None:
    """When it is answered no file is left."""
    await keep(node, *range(10))

    answer = await (clear(node) if what == "tier" else forget(node))

    assert answer.removed_blocks == 10
    assert not shelf_of(node).blocks
    await at_rest(node)


async def test_a_large_clear_may_take_longer_than_one_operation(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as files go it is no trouble of the tier."""
    node = make_node(fs_tier(3000, io_timeout=0.5, io_threads=1))
    for first in range(0, 3000, 1000):
        await keep(node, *range(first, first + 1000))
    shelf = shelf_of(node)
    delete_fast = shelf.delete

    def delete_slowly(names: list[str]) -> None:
        time.sleep(0.2)
        delete_fast(names)

    monkeypatch.setattr(shelf, "delete", delete_slowly)

    answer = await clear(node)

    assert answer.removed_blocks == 3000
    assert node.tier.accepts
    assert not shelf.blocks


@pytest.mark.parametrize("by", ["delete", "clear"])
async def test_a_leased_block_that_is_removed_by_force_leaves_no_file(
    node: LocalNode, by: str
) -> None:
    """No restart brings it back; who leases it is told that it is gone, and holds its slot."""
    await keep(node, "a", "b")
    request = pb.PrepareLoadRequest(
        tier=TIER,
        namespace=node.namespace,
        blocks=node.blocks("a"),
        lease_id=node.new_id(),
        owner="engine",
    )
    lease = pb.PrepareLoadResponse.FromString(at_once(node.tiers.prepare_load(request))).lease
    head = node.node.log.head

    if by == "delete":
        assert (await delete(node, "a", "b"))[TIER] == ["BUSY", "DELETED"]
        assert (await delete(node, "a", force=True))[TIER] == ["DELETED"]
    else:
        with pytest.raises(KvtierError, match="under load leases"):
            await clear(node)
        await clear(node, force=True)

    assert not shelf_of(node).blocks
    assert node.gauges() == {"draining": 1, "free": 15}
    late = await read(node.transfers, ReadBlocksRequest(lease=lease))
    assert late.results() == {0: "MISS"}
    assert ("LOST", block_hash("a")) not in node.removals(head)
    node.tiers.complete_load(pb.CompleteLoadRequest(lease=lease))
    assert (await keep(node, "a")).results() == {0: "STORED"}
    assert (await read(node.transfers, target(node, "a"))).results() == {}
    await at_rest(node)


async def test_a_block_removed_before_the_loop_heard_that_it_was_written_is_still_to_be_deleted(
    node: LocalNode,
) -> None:
    """Its file is there: a delete that is answered without it would be undone by a restart."""
    keeping, left = node.tier.keeping, list[int]()
    assert keeping is not None
    shelf_of(node).gate.clear()
    upload = asyncio.create_task(keep(node, "a"))
    await until(lambda: shelf_of(node).begun)
    (moving,) = keeping._writing
    ((_, job),) = moving._jobs
    (slot,) = [slot for slot, state in enumerate(node.tier.table.state) if state == PENDING]

    def remove(_: object) -> None:
        node.tier.cut_off([slot])
        left.append(keeping.doomed)

    job.ended.add_done_callback(remove)
    shelf_of(node).gate.set()
    await upload

    assert left == [1]
    await at_rest(node)


async def test_a_stop_waits_until_removed_blocks_are_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was evicted or given back a moment ago is not found by the next start."""
    shelf = MemoryShelf()
    monkeypatch.setattr(lifecycle, "open_store", lambda tier, *_: keep_on(shelf, tier))
    config = {"listen": "127.0.0.1:0", "tiers": [fs_tier()], "drain_timeout": 0}
    server = lifecycle.TierServer(NodeConfig.model_validate(config))
    await server.start()
    name = make_name(bytes(32), 0, b"", b"hash", 1)
    shelf.blocks[name] = b"removed"
    shelf.gate.clear()
    keeping = server.node.tiers[0].keeping
    assert keeping is not None
    keeping.store.discard([name])

    stopping = asyncio.create_task(server.drain_and_stop())
    await asyncio.sleep(0.1)
    assert not stopping.done()
    shelf.gate.set()
    await stopping

    assert not shelf.blocks


async def test_a_tier_without_room_lets_blocks_go(node: LocalNode) -> None:
    """Where only room is missing, deletes and clears are what makes some."""
    await keep(node, "a", "b")
    assert node.tier.keeping is not None
    node.tier.keeping.store.health.fault("no space left on device", full=True)

    deleted = await delete(node, "a")
    cleared = await clear(node)

    assert deleted[TIER] == ["DELETED"]
    assert cleared.removed_blocks == 1
    assert not shelf_of(node).blocks
