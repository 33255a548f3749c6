"""LookupBlocks and TouchBlocks."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Iterator, Sequence

from kvtier.server.known import check_known
from kvtier.server.node import Node
from kvtier.server.operations.requests import (
    check_count,
    read_group,
    read_hashes,
    read_keys,
    read_scope,
    read_text,
)
from kvtier.server.tiers.spaces import NamespaceInfo
from kvtier.server.tiers.tier import Tier
from kvtier.v1.block_pb2 import Locality, Medium
from kvtier.v1.lookup_pb2 import LookupBlocksRequest, LookupBlocksResponse
from kvtier.v1.result_pb2 import ChainLookup, LookupResult
from kvtier.v1.tier_service_pb2 import TouchBlocksRequest, TouchBlocksResponse

HIT = LookupResult.LOOKUP_RESULT_HIT
HIT_PENDING = LookupResult.LOOKUP_RESULT_HIT_PENDING
MISS = LookupResult.LOOKUP_RESULT_MISS
RETRY = LookupResult.LOOKUP_RESULT_RETRY
# Blocks looked up between two turns of the loop: about a millisecond.
_STEP = 4096


def lookup_blocks(
    node: Node, request: LookupBlocksRequest
) -> LookupBlocksResponse | Awaitable[LookupBlocksResponse]:
    """Answer each chain from the tables: at once when it is short work, else step by step.

    Large lookups take turns, and between two steps of one whoever asks for little is answered.
    """
    namespace = node.registry.get(request.namespace)
    lists = [chain.block_hashes for chain in request.chains]
    check_count(node, namespace, lists, "chains")
    tiers = _that_count(node.tiers, request)
    response = LookupBlocksResponse(
        tiers=[tier.name for tier in tiers],
        recovering_mask=sum(tier.health.recovering << place for place, tier in enumerate(tiers)),
    )
    steps = _answer_chains(node, tiers, namespace, request, response)
    if sum(map(len, lists)) > _STEP * namespace.hash_width:
        return _step_by_step(node, steps, response)
    deque(steps, maxlen=0)
    return response


def _that_count(tiers: Sequence[Tier], request: LookupBlocksRequest) -> Sequence[Tier]:
    media = check_known("medium", "media", request.media, Medium)
    localities = check_known("locality", "localities", request.localities, Locality)
    return [
        tier
        for tier in tiers
        if (not media or tier.store.medium in media)
        and (not localities or tier.locality in localities)
    ]


async def _step_by_step(
    node: Node, steps: Iterator[None], response: LookupBlocksResponse
) -> LookupBlocksResponse:
    async with node.large_lookups:
        for _ in steps:
            await asyncio.sleep(0)
    return response


def _answer_chains(
    node: Node,
    tiers: Sequence[Tier],
    namespace: NamespaceInfo,
    request: LookupBlocksRequest,
    response: LookupBlocksResponse,
) -> Iterator[None]:
    """Answer chain by chain, and yield after each step of a chain."""
    absent = RETRY if response.recovering_mask else MISS
    for chain in request.chains:
        group, scope = read_group(namespace, chain.group), read_scope(chain.scope)
        hashes = read_hashes(namespace, chain.block_hashes)
        answer = response.chains.add(prefix_lengths=[0] * len(tiers))
        for first in range(0, len(hashes), _STEP):
            space = node.spaces.find(namespace, group, scope)
            keys = space.keys(hashes[first : first + _STEP])
            _go_on(tiers, answer, first, keys)
            if request.include_blocks:
                _add_blocks(answer, len(keys), [tier.look_up(keys) for tier in tiers], absent)
            yield
        node.demand.count_lookup(len(hashes), answer.union_prefix_length)


def _go_on(tiers: Sequence[Tier], answer: ChainLookup, first: int, keys: Sequence[bytes]) -> None:
    """Lengthen the prefixes that reach as far as these blocks of a chain, which begin there."""
    reach = 0
    for place, tier in enumerate(tiers):
        if answer.prefix_lengths[place] == first:
            length = tier.prefix(keys)
            answer.prefix_lengths[place] += length
            reach = max(reach, length)
    if answer.union_prefix_length == first:
        answer.union_prefix_length += _union_prefix(tiers, keys, reach)


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


def _add_blocks(
    answer: ChainLookup,
    count: int,
    by_tier: Sequence[Sequence[int]],
    absent: LookupResult.ValueType,
) -> None:
    blocks = list(zip(*by_tier, strict=True)) or [()] * count
    # There are few combinations of results, and may be many thousands of blocks.
    combinations = set(blocks)
    masks = {c: sum(1 << i for i, result in enumerate(c) if result == HIT) for c in combinations}
    over_all = {
        c: HIT if HIT in c else HIT_PENDING if HIT_PENDING in c else absent for c in combinations
    }
    answer.tier_masks.extend(map(masks.__getitem__, blocks))
    answer.results.extend(map(over_all.__getitem__, blocks))
