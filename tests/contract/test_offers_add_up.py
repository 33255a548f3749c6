"""An offer whose parts do not fit together is refused whole, and leaves no trace."""

from typing import Any

import pytest

from kvtier.v1.block_pb2 import BlockRun
from kvtier.v1.tier_service_pb2 import (
    PrepareStoreRequest,
)
from kvtier.v1.transfer_service_pb2 import WriteBlocksRequest

from .conftest import Serve
from .folding import listed
from .following import following
from .support import TOKENS, WIDTH, block_hash, hashes, payload, run
from .wire import METHODS, wire

PREPARE = METHODS["TierService.PrepareStore"]
WRITE = METHODS["TransferService.WriteBlocks"]
GOOD = run("good")
PARENT = block_hash("parent")


def tokens(count: int) -> BlockRun:
    return run("a", "b", token_ids=range(count))


# The runs of an offer, and what the refusal has to say.
OFFERS: dict[str, tuple[list[BlockRun], list[Any]]] = {
    "no runs": ([], ["runs"]),
    "no hashes": ([BlockRun()], ["block_hashes", 0, WIDTH]),
    "no hashes beside others": ([GOOD, BlockRun()], ["block_hashes", 0]),
    "a byte too few": ([BlockRun(block_hashes=hashes("a", "b")[:-1])], [2 * WIDTH - 1, WIDTH]),
    "a byte too many": ([BlockRun(block_hashes=hashes("a") + b"x")], [WIDTH + 1, WIDTH]),
    "token ids of one block too few": ([tokens(TOKENS)], [TOKENS, 2 * TOKENS]),
    "a token id too few": ([tokens(2 * TOKENS - 1)], [2 * TOKENS - 1, 2 * TOKENS]),
    "a token id too many": ([tokens(2 * TOKENS + 1)], [2 * TOKENS + 1, 2 * TOKENS]),
    "token ids of a block more": ([tokens(3 * TOKENS)], [3 * TOKENS, 2 * TOKENS]),
    "one bad run among good ones": ([GOOD, tokens(1), run("x")], [1, 2 * TOKENS]),
    "a start inside a block": ([run("a", after="p", start=TOKENS + 1)], [TOKENS + 1, TOKENS]),
    "a parent before the first": (
        [BlockRun(block_hashes=hashes("a"), parent_block_hash=PARENT)],
        ["parent_block_hash", WIDTH],
    ),
    "a later start without a parent": (
        [BlockRun(block_hashes=hashes("a"), start_position=TOKENS)],
        ["parent_block_hash", TOKENS],
    ),
    "a parent of another width": (
        [BlockRun(block_hashes=hashes("a"), start_position=TOKENS, parent_block_hash=PARENT[1:])],
        ["parent_block_hash", WIDTH - 1, WIDTH],
    ),
    "a gap after the parent": ([run("a", after="resident", start=3 * TOKENS)], [48, TOKENS]),
    "the parent again": ([run("a", after="child", start=TOKENS)], [TOKENS, 2 * TOKENS]),
    "an end beyond all positions": ([run("a", after="p", start=2**64 - TOKENS)], [2**64 - TOKENS]),
}


@pytest.mark.parametrize("way", ["PrepareStore", "WriteBlocks"])
@pytest.mark.parametrize(("runs", "told"), OFFERS.values(), ids=OFFERS.keys())
async def test_an_offer_that_does_not_add_up_leaves_no_trace(
    serve: Serve, runs: list[BlockRun], told: list[Any], way: str
) -> None:
    """The answer names what does not fit; nothing is stored, reserved or announced."""
    node = await serve()
    await node.store("resident", "child")
    before, head = await listed(node.client), (await node.client.get_node()).head
    offer = PrepareStoreRequest(
        tier="cpu0", namespace=node.namespace, runs=runs, lease_id=b"i" * 16, owner="test"
    )
    async with following(node.endpoint) as follower, wire(node.endpoint) as raw:
        if way == "PrepareStore":
            outcome = await raw.call(PREPARE, offer)
        else:
            request = WriteBlocksRequest(offer=offer, checksums=[1], data=payload("a"))
            outcome = await raw.call(WRITE, request)
        await follower.settle(node.client)

    assert outcome.code == "INVALID_ARGUMENT"
    assert outcome.error is not None
    for each in told:
        assert str(each) in outcome.error.message
    after = await node.client.get_node()
    assert (await listed(node.client), after.head, after.leases) == (before, head, 0)
    assert not follower.batches
    assert await node.gauges() == {"ready": 2}
