"""DeleteBlocks, ClearTier and DeleteNamespace.

What is removed is gone for lookups at once. In tiers of files and objects it is answered for when
it is gone from there too, since a restart would find it again.
"""

import asyncio
from collections.abc import Sequence

from kvtier.server.lasting.shelf import ShelfError
from kvtier.server.leases import STORE, End
from kvtier.server.node import Node
from kvtier.server.operations.requests import check_removes, read_keys
from kvtier.server.tiers.removal import check_clear, clear, delete
from kvtier.server.tiers.spaces import NamespaceInfo
from kvtier.server.tiers.tier import Tier
from kvtier.v1.removal_pb2 import (
    ClearTierRequest,
    ClearTierResponse,
    DeleteBlocksRequest,
    DeleteBlocksResponse,
    DeleteNamespaceRequest,
    DeleteNamespaceResponse,
)
from kvtier.v1.result_pb2 import DeleteResult, TierDeletion
from kvtier.wire.errors import Reason, unavailable

_DELETED = DeleteResult.DELETE_RESULT_DELETED
_UNAVAILABLE = DeleteResult.DELETE_RESULT_UNAVAILABLE


async def delete_blocks(node: Node, request: DeleteBlocksRequest) -> DeleteBlocksResponse:
    """Remove blocks from every tier, or from some."""
    node.refuse_when_drained()
    namespace = node.registry.get(request.namespace)
    tiers = node.some_tiers(request.tiers)
    keys = read_keys(node, namespace, request.blocks)
    results = {tier: delete(tier, keys, force=request.force) for tier in tiers}
    for tier in await _not_gone(_deleting(tiers)):
        results[tier] = [_UNAVAILABLE if each == _DELETED else each for each in results[tier]]
    return DeleteBlocksResponse(
        tiers=[TierDeletion(tier=tier.name, results=each) for tier, each in results.items()]
    )


async def clear_tier(node: Node, request: ClearTierRequest) -> ClearTierResponse:
    """Remove every block of a tier, or of one namespace there."""
    node.refuse_when_drained()
    tier = node.tier(request.tier)
    namespace = node.registry.get(request.namespace) if request.namespace else None
    removed, ended = _clear(node, [tier], namespace, force=request.force)
    await _make_sure(_deleting([tier]))
    return ClearTierResponse(removed_blocks=removed, ended_leases=ended)


async def delete_namespace(node: Node, request: DeleteNamespaceRequest) -> DeleteNamespaceResponse:
    """Remove a namespace's blocks from every tier, and forget it."""
    node.refuse_when_drained()
    namespace = node.registry.get(request.namespace)
    removed, ended = _clear(node, node.tiers, namespace, force=request.force)
    node.forget(namespace)
    # Also where it had no blocks: its description has to go.
    await _make_sure(node.tiers)
    return DeleteNamespaceResponse(removed_blocks=removed, ended_leases=ended)


def _clear(
    node: Node, tiers: Sequence[Tier], namespace: NamespaceInfo | None, *, force: bool
) -> tuple[int, int]:
    """Clear tiers, all of them or none; return how many blocks were removed and leases ended."""
    for tier in tiers:
        check_removes(tier)
    for tier in () if force else tiers:
        check_clear(tier, namespace)
    ending = [
        lease
        for lease in node.leases
        if lease.kind == STORE
        and lease.tier in tiers
        and (namespace is None or lease.namespace is namespace)
    ]
    for lease in ending:
        node.leases.let_go(lease, End.CLEARED)
    return sum(clear(tier, namespace) for tier in tiers), len(ending)


def _deleting(tiers: Sequence[Tier]) -> list[Tier]:
    """Return the tiers that have blocks yet to delete."""
    return [tier for tier in tiers if tier.keeping and tier.keeping.doomed]


async def _make_sure(tiers: Sequence[Tier]) -> None:
    """Wait until what was removed from tiers is gone for good.

    Raises:
        KvtierError: UNAVAILABLE when it cannot be deleted now.
    """
    for tier, (left, why) in (await _not_gone(tiers)).items():
        raise unavailable(
            f"the blocks are gone for lookups, but {left} could not be deleted yet from tier "
            f"{tier.name}: {why}. They go when that is mended, and would be back if the node "
            "stopped before",
            Reason.TIER_READ_ONLY,
        )


async def _not_gone(tiers: Sequence[Tier]) -> dict[Tier, tuple[int, str]]:
    """Wait for what is to be deleted; return where that failed, how much is left, and why."""
    lasting = [(tier, tier.keeping) for tier in tiers if tier.keeping and tier.removes]
    if not lasting:
        return {}
    flushes = (keeping.flush() for _, keeping in lasting)
    ends = await asyncio.gather(*flushes, return_exceptions=True)
    failed = {}
    for (tier, keeping), end in zip(lasting, ends, strict=True):
        if isinstance(end, ShelfError):
            failed[tier] = (keeping.doomed, str(end))
        elif end is not None:
            raise end
    return failed
