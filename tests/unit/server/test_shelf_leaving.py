"""Writes to a tier of files that come to nothing: no file is left, and nothing is held."""

import asyncio
import time

import pytest

from kvtier.v1.removal_pb2 import ClearTierRequest, DeleteBlocksRequest
from kvtier.v1.tier_service_pb2 import ReleaseLeasesRequest
from kvtier.v1.transfer_service_pb2 import WriteBlocksRequest
from tests.contract.support import payload, run
from tests.waiting import until

from .conftest import MakeNode
from .shelving import at_rest, fs_tier, shelf_of
from .support import TIER, LocalNode
from .transferring import Upload, data, write


@pytest.fixture
def node(make_node: MakeNode) -> LocalNode:
    """A node with one tier, for sixteen small blocks."""
    return make_node(fs_tier())


@pytest.mark.parametrize("by_offer", [True, False], ids=["offer", "lease"])
async def test_a_caller_that_leaves_in_the_middle_leaves_nothing(
    node: LocalNode, *, by_offer: bool
) -> None:
    """The slot is held while the thread is at it, and then free; no file is left."""
    shelf_of(node).gate.clear()
    lease, first = None, WriteBlocksRequest(offer=node.offer(run("a")))
    if not by_offer:
        lease, _ = node.prepare(run("a"))
        first = WriteBlocksRequest(lease=lease.reference())
    upload = Upload(node.transfers, first, data(0, payload("a")))
    await until(lambda: shelf_of(node).begun)

    await upload.vanish()
    if lease:
        node.tiers.release_leases(ReleaseLeasesRequest(leases=[lease.reference()]))
    assert node.gauges()["draining"] == 1
    shelf_of(node).gate.set()
    await until(lambda: not node.tier.occupancy.draining)

    await at_rest(node)
    assert node.batches() == []
    assert node.tier.accepts, "a caller that leaves is no trouble of the tier"


@pytest.mark.parametrize("saved", [False, True])
async def test_a_block_whose_writer_left_may_be_written_by_another_call(
    node: LocalNode, *, saved: bool
) -> None:
    """The lease stays open; of what the first call brought no file is left beside the second's."""
    lease, _ = node.prepare(run("a"))
    first = WriteBlocksRequest(lease=lease.reference())
    shelf_of(node).gate.clear()
    upload = Upload(node.transfers, first, data(0, payload("a")))
    await until(lambda: shelf_of(node).begun)
    if saved:
        # The file is there, and the loop has not heard of it when the caller leaves.
        shelf_of(node).gate.set()
        while not shelf_of(node).blocks:
            time.sleep(0.005)  # noqa: ASYNC251 - the loop shall not go on
        time.sleep(0.02)  # noqa: ASYNC251
    await upload.vanish()
    shelf_of(node).gate.set()
    await until(lambda: not lease.writing)

    again = await write(node.transfers, first, data(0, payload("a")))

    assert again.results() == {0: "WRITTEN"}
    node.complete(lease)
    await at_rest(node)


@pytest.mark.parametrize("how", ["released", "expired", "failed", "failed block", "cleared"])
async def test_what_was_written_under_a_lease_that_fails_leaves_no_file(
    node: LocalNode, how: str
) -> None:
    """However the lease ends, nothing of it stays and nobody is told of it."""
    lease, _ = node.prepare(run("a", "b"))
    first = WriteBlocksRequest(lease=lease.reference())
    await write(node.transfers, first, data(0, payload("a"), payload("b")))
    assert len(shelf_of(node).blocks) == 2

    match how:
        case "released":
            node.tiers.release_leases(ReleaseLeasesRequest(leases=[lease.reference()]))
        case "expired":
            node.clock.advance(60)
            node.node.expire_leases()
        case "failed":
            node.complete(lease, failed=True)
        case "failed block":
            node.complete(lease, failed_blocks=[0, 1])
        case "cleared":
            await node.tiers.clear_tier(ClearTierRequest(tier=TIER))

    assert node.look_up("a", "b") == ["MISS"] * 2
    await at_rest(node)
    assert not shelf_of(node).blocks
    assert node.batches() == []


async def test_a_deleted_block_that_was_being_written_leaves_no_file(node: LocalNode) -> None:
    """Also while its lease is open: a restart would find it."""
    lease, _ = node.prepare(run("a", "b"))
    shelf_of(node).gate.clear()
    upload = Upload(
        node.transfers,
        WriteBlocksRequest(lease=lease.reference()),
        data(0, payload("a"), payload("b")),
    )
    await until(lambda: shelf_of(node).begun)
    request = DeleteBlocksRequest(namespace=node.namespace, blocks=node.blocks("a"), force=True)
    deleting = asyncio.create_task(node.tiers.delete_blocks(request))
    await until(lambda: node.look_up("a") == ["MISS"])
    shelf_of(node).gate.set()
    await deleting

    assert len(shelf_of(node).blocks) == 1
    assert await upload.end() == {0: "ABORTED", 1: "WRITTEN"}
