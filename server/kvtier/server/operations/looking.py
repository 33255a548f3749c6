"""LookupBlocks and TouchBlocks."""

from collections.abc import Sequence

from kvtier.server.node import Node
from kvtier.server.operations.requests import (
    check_count,
    read_group,
    read_hashes,
    read_keys,
    read_scope,
    read_text,
)
from kvtier.server.tiers.tier import Tier
from kvtier.v1.result_pb2 import ChainLookup, LookupResult
from kvtier.v1.tier_service_pb2 import (
    LookupBlocksRequest,
    LookupBlocksResponse,
    TouchBlocksRequest,
    TouchBlocksResponse,
)

HIT = LookupResult.LOOKUP_RESULT_HIT
HIT_PENDING = LookupResult.LOOKUP_RESULT_HIT_PENDING
MISS = LookupResult.LOOKUP_RESULT_MISS


def lookup_blocks(node: Node, request: LookupBlocksRequest) -> LookupBlocksResponse:
    """Answer each chain from the tables."""
    namespace = node.registry.get(request.namespace)
    check_count(node, namespace, [chain.block_hashes for chain in request.chains], "chains")
    response = LookupBlocksResponse(tiers=[tier.name for tier in node.tiers])
    for chain in request.chains:
        group, scope = read_group(namespace, chain.group), read_scope(chain.scope)
        hashes = read_hashes(namespace, chain.block_hashes)
        keys = node.spaces.find(namespace, group, scope).keys(hashes)
        lengths = [tier.prefix(keys) for tier in node.tiers]
        answer = response.chains.add(
            prefix_lengths=lengths,
            union_prefix_length=_union_prefix(node.tiers, keys, max(lengths)),
        )
        if request.include_blocks:
            _add_blocks(answer, [tier.look_up(keys) for tier in node.tiers])
    return response


def touch_blocks(node: Node, request: TouchBlocksRequest) -> TouchBlocksResponse:
    """Stamp blocks in every tier, or in some, that holds them."""
    namespace = node.registry.get(request.namespace)
    request_id = read_text("request_id", request.request_id, required=False)
    tiers = node.some_tiers(request.tiers)
    keys = read_keys(node, namespace, request.blocks)
    masks = [0] * len(keys)
    for place, tier in enumerate(node.tiers):
        if tier in tiers:
            stamped = tier.stamp(request_id, keys)
            masks = [mask | here << place for mask, here in zip(masks, stamped, strict=True)]
    return TouchBlocksResponse(tiers=[tier.name for tier in node.tiers], tier_masks=masks)


def _union_prefix(tiers: Sequence[Tier], keys: Sequence[bytes], reach: int) -> int:
    """Go on from the longest prefix of one tier, with blocks of any tier."""
    if len(tiers) == 1:
        return reach
    while reach < len(keys) and any(tier.holds(keys[reach]) for tier in tiers):
        reach += 1
    return reach


def _add_blocks(answer: ChainLookup, by_tier: Sequence[Sequence[int]]) -> None:
    for results in zip(*by_tier, strict=True):
        answer.tier_masks.append(sum(1 << i for i, result in enumerate(results) if result == HIT))
        answer.results.append(
            HIT if HIT in results else HIT_PENDING if HIT_PENDING in results else MISS
        )
