"""DeleteBlocks and ClearTier."""

from kvtier.server.leases import STORE, End
from kvtier.server.node import Node
from kvtier.server.operations.requests import read_keys
from kvtier.v1.result_pb2 import TierDeletion
from kvtier.v1.tier_service_pb2 import (
    ClearTierRequest,
    ClearTierResponse,
    DeleteBlocksRequest,
    DeleteBlocksResponse,
)


def delete_blocks(node: Node, request: DeleteBlocksRequest) -> DeleteBlocksResponse:
    """Remove blocks from every tier, or from some."""
    node.refuse_when_drained()
    namespace = node.registry.get(request.namespace)
    tiers = node.some_tiers(request.tiers)
    keys = read_keys(node, namespace, request.blocks)
    return DeleteBlocksResponse(
        tiers=[
            TierDeletion(tier=tier.name, results=tier.delete(keys, force=request.force))
            for tier in tiers
        ]
    )


def clear_tier(node: Node, request: ClearTierRequest) -> ClearTierResponse:
    """Remove every block of a tier, or of one namespace there."""
    node.refuse_when_drained()
    tier = node.tier(request.tier)
    namespace = node.registry.get(request.namespace) if request.namespace else None
    if not request.force:
        tier.check_clear(namespace)
    ending = [
        lease
        for lease in node.leases
        if lease.kind == STORE
        and lease.tier is tier
        and (namespace is None or lease.namespace is namespace)
    ]
    for lease in ending:
        node.leases.let_go(lease, End.CLEARED)
    return ClearTierResponse(removed_blocks=tier.clear(namespace), ended_leases=len(ending))
