"""RenewLeases and ReleaseLeases."""

from collections.abc import Callable, Sequence

from kvtier.server.leases import End, Lease, read_lease_id
from kvtier.server.node import Node
from kvtier.server.operations.requests import read_text, read_ttl
from kvtier.v1 import block_pb2
from kvtier.v1.result_pb2 import LeaseResult
from kvtier.v1.tier_service_pb2 import (
    ReleaseLeasesRequest,
    ReleaseLeasesResponse,
    RenewLeasesRequest,
    RenewLeasesResponse,
)
from kvtier.wire.errors import invalid

OK = LeaseResult.LEASE_RESULT_OK


def renew_leases(node: Node, request: RenewLeasesRequest) -> RenewLeasesResponse:
    """Give open leases a new time to live."""
    if not request.leases:
        raise invalid("leases is empty; name at least one lease")
    ttl = read_ttl(node, request.ttl, given=request.HasField("ttl"))
    _check_leases(node, request.leases)
    results = [
        _apply(node, lease, lambda found: node.leases.renew(found, ttl)) for lease in request.leases
    ]
    return RenewLeasesResponse(results=results)


def release_leases(node: Node, request: ReleaseLeasesRequest) -> ReleaseLeasesResponse:
    """End leases by name, or all of an owner's."""
    owner = read_text("owner", request.owner, required=False)
    if not request.leases and not owner:
        raise invalid("leases and owner are both empty; name leases, or an owner")
    _check_leases(node, request.leases)
    for named in request.leases:
        node.leases.quarantine.hear(named.id, named.generation)
    results = [
        OK
        if node.leases.end_of(lease) in {End.RELEASED, End.OWNER_RELEASED}
        else _apply(node, lease, lambda found: node.leases.let_go(found, End.RELEASED))
        for lease in request.leases
    ]
    owned = node.leases.of_owner(owner) if owner else []
    for held in owned:
        node.leases.let_go(held, End.OWNER_RELEASED)
    return ReleaseLeasesResponse(results=results, owner_leases=len(owned))


def _check_leases(node: Node, leases: Sequence[block_pb2.Lease]) -> None:
    count, limit = len(leases), node.config.limits.leases_per_owner
    if count > limit:
        raise invalid(f"leases holds {count} leases; at most {limit} are allowed in one request")
    for lease in leases:
        read_lease_id(lease.id)


def _apply(
    node: Node, reference: block_pb2.Lease, act: Callable[[Lease], None]
) -> LeaseResult.ValueType:
    lease = node.leases.get(reference.id)
    if lease is None:
        if node.leases.knows(reference.id):
            return LeaseResult.LEASE_RESULT_ENDED
        return LeaseResult.LEASE_RESULT_NOT_FOUND
    if lease.generation != reference.generation:
        return LeaseResult.LEASE_RESULT_WRONG_GENERATION
    act(lease)
    return OK
