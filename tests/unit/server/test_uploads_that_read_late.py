"""Blocks that are on the shelf while their caller has not taken the answer before them yet."""

import pytest

from kvtier.v1.removal_pb2 import ClearTierRequest, DeleteBlocksRequest
from kvtier.v1.transfer_service_pb2 import WriteBlocksRequest
from kvtier.wire.errors import KvtierError
from tests.contract.support import payload, run
from tests.waiting import until

from .conftest import MakeNode
from .shelving import at_rest, fs_tier, shelf_of
from .support import TIER, LocalNode
from .transferring import Upload, data, settle


@pytest.fixture
def node(make_node: MakeNode) -> LocalNode:
    """A node with one tier, for sixteen small blocks."""
    return make_node(fs_tier())


async def saved_and_not_told(node: LocalNode) -> Upload:
    """Offer two blocks; both are on the shelf, and the call waits to tell of the first."""
    shelf = shelf_of(node)
    shelf.gate.clear()
    upload = Upload(node.transfers, WriteBlocksRequest(offer=node.offer(run("a", "b"))))
    await settle()
    upload.reading.clear()
    await upload.send(data(0, payload("a")), data(1, payload("b")))
    shelf.gate.set()
    await until(lambda: len(shelf.blocks) == len(upload.answers) == 2)
    await settle()
    return upload


async def test_a_block_that_is_deleted_before_it_is_told_stays_deleted(node: LocalNode) -> None:
    """The caller is told so, nobody hears that it is stored, and nothing of it is left."""
    upload = await saved_and_not_told(node)

    await node.tiers.delete_blocks(
        DeleteBlocksRequest(namespace=node.namespace, blocks=node.blocks("b"), force=True)
    )
    upload.reading.set()

    assert await upload.end() == {0: "STORED", 1: "ABORTED"}
    assert node.look_up("a", "b") == ["HIT", "MISS"]
    assert sum(len(each.stored) for each in node.batches()) == 1
    assert node.gauges() == {"ready": 1, "free": 15}
    await at_rest(node)


async def test_a_clear_before_a_block_is_told_ends_the_call(node: LocalNode) -> None:
    """Its lease is over, which is no fault of the server."""
    upload = await saved_and_not_told(node)

    await node.tiers.clear_tier(ClearTierRequest(tier=TIER, force=True))
    upload.reading.set()

    with pytest.raises(KvtierError, match="ended while its blocks were written"):
        await upload.end()
    assert node.look_up("a", "b") == ["MISS", "MISS"]
    await at_rest(node)
