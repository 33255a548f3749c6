"""Short ways to use a node in this process whose tiers are, in part, files or objects."""

import asyncio
from collections.abc import Sequence

from kvtier.server.leases import Lease
from kvtier.server.operations.copying import copy_blocks
from kvtier.server.operations.loading import complete_load, prepare_load
from kvtier.server.operations.storing import complete_store, prepare_store
from kvtier.server.tiers.table import READY
from kvtier.server.tiers.tier import Tier
from kvtier.v1.block_pb2 import RemovalReason
from kvtier.v1.copying_pb2 import CopyBlocksRequest, CopyBlocksResponse
from kvtier.v1.result_pb2 import CopyResult, LookupResult
from kvtier.v1.tier_service_pb2 import (
    CompleteLoadRequest,
    CompleteStoreRequest,
    PrepareLoadRequest,
    PrepareLoadResponse,
    PrepareStoreResponse,
)
from kvtier.wire.hashes import split_hashes
from tests.contract.support import BLOCK_BYTES, WIDTH, block_hash, blocks_of, payload, run, words
from tests.lasting.memory_shelf import MemoryShelf
from tests.unit.server.support import LocalNode

# What, tier, block and reason.
Change = tuple[str, str, bytes, str]


def tier_of(local: LocalNode, name: str) -> Tier:
    """A tier by its name."""
    return local.node.tier(name)


async def store(local: LocalNode, *blocks: object, wait: bool = False) -> None:
    """Store blocks in the first tier as one chain, and wait for their copies if asked to."""
    request = local.offer(run(*blocks))
    request.tier = local.tier.name
    answer = PrepareStoreResponse.FromString(await prepare_store(local.node, request))
    lease = local.node.leases.get(answer.lease.id)
    assert lease is not None
    local.fill(lease, blocks)
    done = CompleteStoreRequest(lease=answer.lease, wait_copies=wait)
    await complete_store(local.node, done)


async def prepare(local: LocalNode, *blocks: object) -> tuple[list[str], Lease]:
    """Begin a load from the first tier, brought up first; return the results and the lease."""
    request = PrepareLoadRequest(
        tier=local.tier.name,
        namespace=local.namespace,
        blocks=[blocks_of(*blocks)],
        lease_id=local.new_id(),
        owner="engine",
        promote=True,
        wait=True,
    )
    answer = PrepareLoadResponse.FromString(await prepare_load(local.node, request, 5.0))
    lease = local.node.leases.get(answer.lease.id)
    assert lease is not None
    return words(LookupResult, answer.results), lease


async def load(local: LocalNode, *blocks: object) -> list[str]:
    """Load blocks from the first tier, brought up first; check what is read, and let go of it."""
    results, lease = await prepare(local, *blocks)
    for place, slot in lease.slots.items():
        read = local.tier.arena.read(local.tier.position_of(slot), BLOCK_BYTES)
        assert read == payload(blocks[place])
    complete_load(local.node, CompleteLoadRequest(lease=lease.reference()))
    return results


async def copy(
    local: LocalNode, source: str, target: str, *blocks: object, move: bool = False
) -> list[str]:
    """Copy blocks between two tiers; return what became of each."""
    results = dict[int, int]()

    async def send(answer: CopyBlocksResponse) -> None:
        results.update(zip(answer.block_indexes, answer.results, strict=True))
        await asyncio.sleep(0)

    request = CopyBlocksRequest(
        namespace=local.namespace,
        runs=[run(*blocks)],
        from_tier=source,
        to_tier=target,
        move=move,
    )
    await copy_blocks(local.node, request, send)
    return words(CopyResult, [results[place] for place in range(len(blocks))])


def held(local: LocalNode, tier: str) -> set[bytes]:
    """The hashes of the blocks that a tier shows."""
    table = tier_of(local, tier).table
    return {table.key[slot][-WIDTH:] for slot, state in enumerate(table.state) if state == READY}


def kept(shelf: MemoryShelf, *blocks: object) -> bool:
    """Tell whether a shelf has the bytes of these blocks and no others."""
    return sorted(each[-BLOCK_BYTES:] for each in shelf.blocks.values()) == sorted(
        map(payload, blocks)
    )


def changes(local: LocalNode, after: int = 0) -> list[set[Change]]:
    """What each batch behind a position of the log tells."""
    told = []
    for batch in local.batches(after):
        gone = {
            ("removed", each.tier, one, words(RemovalReason, [each.reason])[0])
            for each in batch.removed
            for one in split_hashes(each.block_hashes, WIDTH)
        }
        come = {
            ("stored", each.tier, one, "")
            for each in batch.stored
            for one in split_hashes(each.block_hashes, WIDTH)
        }
        told.append(gone | come)
    return told


def stored(block: object, tier: str) -> Change:
    """What is told of a block that became readable."""
    return "stored", tier, block_hash(block), ""


def removed(block: object, tier: str, reason: str) -> Change:
    """What is told of a block that ceased to be readable."""
    return "removed", tier, block_hash(block), reason


def hashes_of(blocks: Sequence[object]) -> set[bytes]:
    """The hashes of blocks."""
    return set(map(block_hash, blocks))
