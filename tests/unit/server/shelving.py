"""Nodes whose first tier keeps its blocks on a shelf, and short ways to use it."""

from kvtier.v1.transfer_service_pb2 import ReadBlocksRequest, ReadTarget, WriteBlocksRequest
from tests.contract.support import namespace, payload, payloads, run
from tests.lasting.memory_shelf import MemoryShelf
from tests.waiting import until

from .support import TIER, LocalNode
from .transferring import Upload, data, part, write

GRAIN = 4096
PIECE = 1 << 20


def fs_tier(blocks: int = 16, **fields: object) -> dict[str, object]:
    """The configuration of a tier with room for some small blocks, on a shelf in memory."""
    size = {"capacity": blocks * GRAIN, "io_threads": 2}
    return {"name": TIER, "medium": "fs", "directory": "/nowhere", **size, **fields}


def shelf_of(node: LocalNode) -> MemoryShelf:
    """Return the shelf of the first tier."""
    return node.shelves[TIER]


def heal(node: LocalNode) -> None:
    """Do what happens when a tier's trouble has passed."""
    shelf_of(node).trouble = ""
    assert node.tier.keeping is not None
    node.tier.keeping.store.health.heal()


async def keep(node: LocalNode, *blocks: object) -> Upload:
    """Store small blocks in one message."""
    message = data(0, *payloads(*blocks))
    message.offer.CopyFrom(node.offer(run(*blocks)))
    return await write(node.transfers, message)


def use_large_blocks(node: LocalNode, size: int) -> None:
    """Let the node's one namespace be one of blocks of this size."""
    node.namespace = node.node.register(namespace("large", block_bytes=[size])).fingerprint


def pieces(place: int, block: object, size: int) -> list[WriteBlocksRequest]:
    """The messages that bring a block of many bytes."""
    whole = payload(block, size)
    return [part(place, whole, start, start + PIECE) for start in range(0, size, PIECE)]


def target(node: LocalNode, *blocks: object) -> ReadBlocksRequest:
    """Ask for blocks without a lease."""
    named = ReadTarget(tier=TIER, namespace=node.namespace, blocks=node.blocks(*blocks))
    return ReadBlocksRequest(blocks=named)


async def at_rest(node: LocalNode) -> None:
    """Wait until nothing is to be deleted, and see that nothing is held."""
    assert node.tier.keeping is not None
    await node.tier.keeping.store.flush()
    budgets = (node.node.write_bytes, node.node.read_bytes)
    await until(lambda: not any(budget.used for budget in budgets))
    assert node.node.transfers == 0
    assert node.tier.occupancy.draining == 0
    assert len(shelf_of(node).blocks) == node.tier.occupancy.ready
