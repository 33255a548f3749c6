"""PrepareLoad and CompleteLoad."""

from collections.abc import Sequence

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
from kvtier.v1.tier_service_pb2 import (
    CompleteLoadRequest,
    CompleteLoadResponse,
    PrepareLoadRequest,
    PrepareLoadResponse,
)


def prepare_load(node: Node, request: PrepareLoadRequest) -> bytes:
    """Pin readable blocks; a repeated request gets the first answer."""
    digest = request_digest(request)
    answer = node.leases.first_answer(read_lease_id(request.lease_id), digest)
    return answer if answer is not None else _open_load(node, request, digest).answer


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


def _open_load(node: Node, request: PrepareLoadRequest, digest: bytes) -> Lease:
    node.refuse_when_closing()
    tier, namespace = node.tier(request.tier), node.registry.get(request.namespace)
    owner = read_text("owner", request.owner, required=True)
    request_id = read_text("request_id", request.request_id, required=False)
    ttl = read_ttl(node, request.ttl, given=request.HasField("ttl"))
    mapping = read_mapping(node, tier, request)
    keys = read_keys(node, namespace, request.blocks)
    results, found, pinned = tier.load(request_id, keys, node.leases.room_of(owner))
    for other in node.tiers:
        if other is not tier:
            other.stamp(request_id, keys)
    slots, aliases = _by_place(found)
    lease = Lease(
        read_lease_id(request.lease_id),
        owner,
        LOAD,
        tier,
        namespace,
        digest,
        slots,
        block_sizes(namespace, request.blocks),
        aliases,
        bytes_held=pinned,
    )
    node.leases.open(lease, ttl)
    response = PrepareLoadResponse(lease=lease.reference(), ttl=as_duration(ttl), results=results)
    if mapping:
        checksum = tier.table.checksum
        response.slots.extend([slot or 0 for slot in found])
        response.checksums.extend([0 if slot is None else checksum[slot] for slot in found])
    lease.answer = response.SerializeToString()
    return lease


def _by_place(found: Sequence[int | None]) -> tuple[dict[int, int], dict[int, int]]:
    """Return each slot by its first place, and that first place by each further one."""
    first: dict[int, int] = {}
    aliases: dict[int, int] = {}
    for place, slot in enumerate(found):
        if slot is not None and first.setdefault(slot, place) != place:
            aliases[place] = first[slot]
    return {place: slot for slot, place in first.items()}, aliases
