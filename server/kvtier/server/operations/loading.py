"""PrepareLoad and CompleteLoad."""

from collections.abc import Sequence
from typing import NamedTuple

from kvtier.server.leases import LOAD, End, Lease, read_lease_id
from kvtier.server.node import Node
from kvtier.server.operations.requests import (
    as_duration,
    block_sizes,
    read_keys,
    read_mapping,
    read_text,
    read_ttl,
    request_digest,
)
from kvtier.server.tiers.spaces import NamespaceInfo
from kvtier.server.tiers.tier import Tier
from kvtier.v1.result_pb2 import LookupResult
from kvtier.v1.tier_service_pb2 import (
    CompleteLoadRequest,
    CompleteLoadResponse,
    PrepareLoadRequest,
    PrepareLoadResponse,
)

MISS = LookupResult.LOOKUP_RESULT_MISS
HIT_PENDING = LookupResult.LOOKUP_RESULT_HIT_PENDING
RETRY = LookupResult.LOOKUP_RESULT_RETRY
# A promotion that nobody has a deadline for, in seconds.
_LONGEST_WAIT = 30.0
_MARGIN = 0.02


class _Wanted(NamedTuple):
    tier: Tier
    namespace: NamespaceInfo
    owner: str
    request_id: str
    ttl: float
    keys: list[bytes]
    mapping: int


async def prepare_load(
    node: Node, request: PrepareLoadRequest, seconds_left: float | None = None
) -> bytes:
    """Pin readable blocks, after bringing them up; a repeated request gets the first answer."""
    digest = request_digest(request)
    async with node.turns.of(read_lease_id(request.lease_id)):
        answer = node.leases.first_answer(request.lease_id, digest)
        if answer is not None:
            return answer
        wanted = _read(node, request)
        if not request.promote:
            return _open_load(node, request, digest, wanted)
        return await _promote(node, request, digest, wanted, seconds_left)


def complete_load(node: Node, request: CompleteLoadRequest) -> bytes:
    """Unpin the blocks of a lease; a repeated request gets the first outcome."""
    outcome = node.leases.first_outcome(request.lease, LOAD)
    if outcome is not None:
        return outcome
    lease = node.leases.find(request.lease, LOAD)
    lease.tier.occupancy.unpin(list(lease.slots.values()))
    outcome = CompleteLoadResponse().SerializeToString()
    node.leases.end(lease, End.COMPLETED, outcome)
    return outcome


def _read(node: Node, request: PrepareLoadRequest) -> _Wanted:
    node.refuse_when_closing()
    tier, namespace = node.tier(request.tier), node.registry.get(request.namespace)
    owner = read_text("owner", request.owner, required=True)
    request_id = read_text("request_id", request.request_id, required=False)
    ttl = read_ttl(node, request.ttl, given=request.HasField("ttl"))
    mapping = read_mapping(node, tier, request)
    keys = read_keys(node, namespace, request.blocks)
    node.leases.room_of(owner)
    return _Wanted(tier, namespace, owner, request_id, ttl, keys, mapping)


async def _promote(
    node: Node,
    request: PrepareLoadRequest,
    digest: bytes,
    wanted: _Wanted,
    seconds_left: float | None,
) -> bytes:
    # Both stamps, this one and that of the load, are of one call.
    group = wanted.request_id or node.stamps.age("").group
    wanted = wanted._replace(request_id=group)
    for tier in node.tiers:
        tier.stamp(group, wanted.keys)
    awaited = node.tiering.promoter.promote(wanted.tier, wanted.keys)
    try:
        if request.wait:
            await awaited.wait(_patience(seconds_left))
            # The wait may have outlasted these.
            node.refuse_when_closing()
            node.registry.check_known(wanted.namespace)
        return _open_load(node, request, digest, wanted, awaited.coming)
    finally:
        awaited.end()


def _patience(seconds_left: float | None) -> float:
    """Return how long to wait, so that the answer still reaches a caller with a deadline."""
    if seconds_left is None:
        return _LONGEST_WAIT
    return max(0.0, seconds_left - max(_MARGIN, seconds_left / 10))


def _open_load(
    node: Node,
    request: PrepareLoadRequest,
    digest: bytes,
    wanted: _Wanted,
    coming: frozenset[bytes] = frozenset(),
) -> bytes:
    tier, keys = wanted.tier, wanted.keys
    results, found, pinned = tier.load(wanted.request_id, keys, node.leases.room_of(wanted.owner))
    for other in node.tiers:
        if other is not tier:
            other.stamp(wanted.request_id, keys)
    if request.promote:
        results = _tell_coming(node, tier, keys, results, coming)
    recovering = _may_come(node, tier, promote=request.promote)
    node.demand.count_load(tier, results, recovering=recovering)
    if recovering:
        results = [RETRY if result == MISS else result for result in results]
    slots, aliases = by_place(found)
    lease = Lease(
        request.lease_id,
        wanted.owner,
        LOAD,
        tier,
        wanted.namespace,
        digest,
        slots,
        block_sizes(wanted.namespace, request.blocks),
        aliases,
        bytes_held=pinned,
    )
    node.leases.open(lease, wanted.ttl)
    response = PrepareLoadResponse(
        lease=lease.reference(), ttl=as_duration(wanted.ttl), results=results
    )
    if wanted.mapping:
        checksum = tier.table.checksum
        response.slots.extend([slot or 0 for slot in found])
        response.checksums.extend([0 if slot is None else checksum[slot] for slot in found])
    lease.answer = response.SerializeToString()
    return lease.answer


def _tell_coming(
    node: Node,
    tier: Tier,
    keys: Sequence[bytes],
    results: Sequence[LookupResult.ValueType],
    coming: frozenset[bytes],
) -> list[LookupResult.ValueType]:
    """Say of blocks that are not in the tier yet whether they are on their way, or below."""
    missing = [key for key, result in zip(keys, results, strict=True) if result == MISS]
    below = node.tiering.promoter.find(tier, missing)
    told = {
        key: HIT_PENDING if key in coming else RETRY
        for key, source in zip(missing, below, strict=True)
        if key in coming or source is not None
    }
    return [
        told.get(key, result) if result == MISS else result
        for key, result in zip(keys, results, strict=True)
    ]


def _may_come(node: Node, tier: Tier, *, promote: bool) -> bool:
    """Tell whether a tier, or one that blocks come up from, may hold more than it knows of."""
    place = node.tiers.index(tier)
    return any(
        each.health.recovering for each in node.tiers[place : None if promote else place + 1]
    )


def by_place(found: Sequence[int | None]) -> tuple[dict[int, int], dict[int, int]]:
    """Return each slot by its first place, and that first place by each further one."""
    first: dict[int, int] = {}
    aliases: dict[int, int] = {}
    for place, slot in enumerate(found):
        if slot is not None and first.setdefault(slot, place) != place:
            aliases[place] = first[slot]
    return {place: slot for slot, place in first.items()}, aliases
