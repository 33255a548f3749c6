"""DeleteBlocks, ClearTier and DeleteNamespace."""

from collections.abc import Sequence

from kvtier.server.leases import STORE, End
from kvtier.server.node import Node
from kvtier.server.operations.requests import read_keys
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
from kvtier.v1.result_pb2 import TierDeletion


def delete_blocks(node: Node, request: DeleteBlocksRequest) -> DeleteBlocksResponse:
    """Remove blocks from every tier, or from some."""
    node.refuse_when_drained()
    namespace = node.registry.get(request.namespace)
    tiers = node.some_tiers(request.tiers)
    keys = read_keys(node, namespace, request.blocks)
    return DeleteBlocksResponse(
        tiers=[
            TierDeletion(tier=tier.name, results=delete(tier, keys, force=request.force))
            for tier in tiers
        ]
    )


def clear_tier(node: Node, request: ClearTierRequest) -> ClearTierResponse:
    """Remove every block of a tier, or of one namespace there."""
    node.refuse_when_drained()
    tier = node.tier(request.tier)
    namespace = node.registry.get(request.namespace) if request.namespace else None
    removed, ended = _clear(node, [tier], namespace, force=request.force)
    return ClearTierResponse(removed_blocks=removed, ended_leases=ended)


def delete_namespace(node: Node, request: DeleteNamespaceRequest) -> DeleteNamespaceResponse:
    """Remove a namespace's blocks from every tier, and forget it."""
    node.refuse_when_drained()
    namespace = node.registry.get(request.namespace)
    removed, ended = _clear(node, node.tiers, namespace, force=request.force)
    node.forget(namespace)
    return DeleteNamespaceResponse(removed_blocks=removed, ended_leases=ended)


def _clear(
    node: Node, tiers: Sequence[Tier], namespace: NamespaceInfo | None, *, force: bool
) -> tuple[int, int]:
    """Clear tiers, all of them or none; return how many blocks were removed and leases ended."""
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
