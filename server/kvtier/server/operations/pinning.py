"""PinBlocks and UnpinBlocks."""

from kvtier.server.leases import PIN, Lease, read_lease_id
from kvtier.server.node import Node
from kvtier.server.operations.leasing import end_leases
from kvtier.server.operations.loading import by_place
from kvtier.server.operations.requests import (
    as_duration,
    block_sizes,
    read_keys,
    read_text,
    read_ttl,
    request_digest,
)
from kvtier.v1.pinning_pb2 import (
    PinBlocksRequest,
    PinBlocksResponse,
    UnpinBlocksRequest,
    UnpinBlocksResponse,
)


async def pin_blocks(node: Node, request: PinBlocksRequest) -> bytes:
    """Keep readable blocks for long; a repeated request gets the first answer."""
    digest = request_digest(request)
    async with node.turns.of(read_lease_id(request.lease_id)):
        answer = node.leases.first_answer(request.lease_id, digest)
        return answer if answer is not None else _open_pin(node, request, digest).answer


def unpin_blocks(node: Node, request: UnpinBlocksRequest) -> UnpinBlocksResponse:
    """End pins by name, or all of an owner's."""
    results, owned = end_leases(node, request.leases, request.owner, pins_only=True)
    return UnpinBlocksResponse(results=results, owner_pins=owned)


def _open_pin(node: Node, request: PinBlocksRequest, digest: bytes) -> Lease:
    node.refuse_when_closing()
    tier, namespace = node.tier(request.tier), node.registry.get(request.namespace)
    owner = read_text("owner", request.owner, required=True)
    ttl = read_ttl(node, request.ttl, given=request.HasField("ttl"), pin=True)
    keys = read_keys(node, namespace, request.blocks)
    results, found, pinned = tier.keep(keys, node.leases.room_of(owner, pin=True))
    slots, aliases = by_place(found)
    lease = Lease(
        read_lease_id(request.lease_id),
        owner,
        PIN,
        tier,
        namespace,
        digest,
        slots,
        block_sizes(namespace, request.blocks),
        aliases,
        bytes_held=pinned,
    )
    node.leases.open(lease, ttl)
    response = PinBlocksResponse(lease=lease.reference(), ttl=as_duration(ttl), results=results)
    lease.answer = response.SerializeToString()
    return lease
