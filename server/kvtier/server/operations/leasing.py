"""RenewLeases and ReleaseLeases."""

from collections.abc import Callable, Sequence

from kvtier.server.leases import PIN, End, Lease, read_lease_id
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
    _check_leases(node, request.leases)
    times = _times_by_kind(node, request)
    results = [
        _apply(node, lease, lambda found: node.leases.renew(found, times[found.kind == PIN]))
        for lease in request.leases
    ]
    return RenewLeasesResponse(results=results)


def release_leases(node: Node, request: ReleaseLeasesRequest) -> ReleaseLeasesResponse:
    """End leases by name, or all of an owner's."""
    results, owned = end_leases(node, request.leases, request.owner)
    return ReleaseLeasesResponse(results=results, owner_leases=owned)


def end_leases(
    node: Node, leases: Sequence[block_pb2.Lease], owner: str, *, pins_only: bool = False
) -> tuple[list[LeaseResult.ValueType], int]:
    """End leases by name and all of an owner's; leave alone what is no pin, if only pins may end.

    Returns:
        The result of each named lease, and how many ended because of the owner.
    """
    read_text("owner", owner, required=False)
    if not leases and not owner:
        raise invalid("leases and owner are both empty; name leases, or an owner")
    _check_leases(node, leases)
    results = [_end(node, lease, pins_only=pins_only) for lease in leases]
    owned = node.leases.accounts.of_owner(owner, pins_only=pins_only) if owner else []
    for lease in owned:
        node.leases.let_go(lease, End.RELEASED)
    return results, len(owned)


def _end(node: Node, reference: block_pb2.Lease, *, pins_only: bool) -> LeaseResult.ValueType:
    if pins_only and node.leases.kind_of(reference.id) != PIN:
        return LeaseResult.LEASE_RESULT_NOT_FOUND
    if node.leases.end_of(reference) is End.RELEASED:
        return OK
    return _apply(node, reference, lambda found: node.leases.let_go(found, End.RELEASED))


def _times_by_kind(node: Node, request: RenewLeasesRequest) -> dict[bool, float]:
    """Return the time to live of pins, and that of other leases when any is named and open."""
    kinds = {node.leases.kind_of(lease.id) for lease in request.leases}
    given = request.HasField("ttl")
    return {
        pin: read_ttl(node, request.ttl, given=given, pin=pin)
        for pin in (True, False)
        if pin or kinds - {PIN, None}
    }


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
