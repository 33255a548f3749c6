"""PrepareStore and CompleteStore."""

from collections.abc import Sequence

from kvtier.server.leases import STORE, End, Lease, read_lease_id, release_slots
from kvtier.server.node import Node
from kvtier.server.operations.requests import (
    as_duration,
    check_accepts,
    read_mapping,
    read_text,
    read_ttl,
    request_digest,
)
from kvtier.server.operations.runs import reading_runs
from kvtier.server.tiers.offer import Reservation, Run
from kvtier.server.tiers.spaces import Space
from kvtier.server.tiers.table import DOOMED, PENDING, WRITTEN
from kvtier.server.tiers.tier import Tier
from kvtier.v1.block_pb2 import BlockSet, NamespacedBlocks
from kvtier.v1.result_pb2 import CompleteResult
from kvtier.v1.tier_service_pb2 import (
    CompleteStoreRequest,
    CompleteStoreResponse,
    PrepareStoreRequest,
    PrepareStoreResponse,
)
from kvtier.wire.errors import invalid

STORED = CompleteResult.COMPLETE_RESULT_STORED
FAILED = CompleteResult.COMPLETE_RESULT_FAILED
NOT_WRITTEN = CompleteResult.COMPLETE_RESULT_NOT_WRITTEN
DELETED = CompleteResult.COMPLETE_RESULT_DELETED
NOT_LEASED = CompleteResult.COMPLETE_RESULT_NOT_LEASED


async def prepare_store(node: Node, request: PrepareStoreRequest) -> bytes:
    """Reserve what an offer needs; a repeated request gets the first answer."""
    digest = request_digest(request)
    async with node.turns.of(read_lease_id(request.lease_id)):
        answer = node.leases.first_answer(request.lease_id, digest)
        return answer if answer is not None else (await open_store(node, request, digest))[0].answer


async def open_store(
    node: Node, request: PrepareStoreRequest, digest: bytes
) -> tuple[Lease, PrepareStoreResponse]:
    """Take a store lease that is not known yet; return it and the answer to the offer."""
    node.refuse_when_closing()
    tier, namespace = node.tier(request.tier), node.registry.get(request.namespace)
    owner = read_text("owner", request.owner, required=True)
    request_id = read_text("request_id", request.request_id, required=False)
    ttl = read_ttl(node, request.ttl, given=request.HasField("ttl"))
    mapping = read_mapping(node, tier, request)
    node.leases.room_of(owner)
    with reading_runs(node, tier, namespace, request.runs) as runs:
        check_accepts(tier)
        moved = await _move_down(node, tier, request_id, owner, runs) if tier.below else []
        reservation = tier.reserve(request_id, runs, node.leases.room_of(owner))
    _stamp_copies(node, tier, request_id, runs)
    lease = Lease(
        read_lease_id(request.lease_id),
        owner,
        STORE,
        tier,
        namespace,
        digest,
        dict(zip(reservation.places, reservation.slots, strict=True)),
        [run.space.block_bytes for run in runs for _ in run.hashes],
        reservation.aliases,
        bytes_held=reservation.bytes,
        mapping=mapping,
    )
    if node.tiering.written_through(tier):
        lease.offered = [key for run in runs for key in run.space.keys(run.hashes)]
    node.leases.open(lease, ttl)
    node.tiering.keep_free(tier)
    response = _answer(lease, reservation, [*moved, *reservation.evicted], ttl)
    lease.answer = response.SerializeToString()
    return lease, response


async def complete_store(node: Node, request: CompleteStoreRequest) -> bytes:
    """Make the written blocks of a lease readable; a repeated request gets the first outcome."""
    outcome = node.leases.first_outcome(request.lease, STORE)
    if outcome is None:
        outcome = _complete(node, request)
    if request.wait_copies:
        await node.tiering.wait_copies(request.lease.id)
    return outcome


def _complete(node: Node, request: CompleteStoreRequest) -> bytes:
    node.leases.quarantine.hear(request.lease.id, request.lease.generation)
    node.refuse_when_drained()
    lease = node.leases.find(request.lease, STORE)
    blocks = len(lease.block_bytes)
    beyond = [place for place in request.failed_blocks if place >= blocks]
    if beyond:
        raise invalid(f"failed_blocks names block {beyond[0]}; the offer has {blocks}, from 0")
    _check_checksums(lease, len(request.checksums))
    failed = set(range(blocks)) if request.failed else set(request.failed_blocks)
    _take_checksums(lease, request.checksums, failed)
    results = publish_lease(lease, failed)
    outcome = CompleteStoreResponse(results=results).SerializeToString()
    node.leases.end(lease, End.COMPLETED, outcome)
    node.tiering.completed(lease.id, lease.tier, lease.offered)
    return outcome


def _check_checksums(lease: Lease, count: int) -> None:
    if not count:
        return
    if not lease.mapping:
        raise invalid(
            f"checksums holds {count} values, and the lease was prepared without locate: send the "
            "blocks through WriteBlocks and leave checksums empty"
        )
    if count != len(lease.slots):
        raise invalid(
            f"checksums holds {count} values; the lease has {len(lease.slots)} blocks to write: "
            "send one for each, in the offer's order, or none"
        )


def _take_checksums(lease: Lease, checksums: Sequence[int], failed: set[int]) -> None:
    """Note what the owner says that it wrote; what calls wrote, or have begun, stays theirs."""
    state = lease.tier.table.state
    told = [
        (slot, checksum)
        for (place, slot), checksum in zip(lease.slots.items(), checksums, strict=False)
        if state[slot] == PENDING and place not in failed and place not in lease.writing
    ]
    lease.tier.mark_written([slot for slot, _ in told], [checksum for _, checksum in told])


def publish_lease(lease: Lease, failed: set[int]) -> list[CompleteResult.ValueType]:
    """Publish what is written and give the rest back; return the result of each block."""
    state = lease.tier.table.state
    results = [NOT_LEASED] * len(lease.block_bytes)
    written: list[int] = []
    rest: list[int] = []
    for place, slot in lease.slots.items():
        result = _result(state[slot], failed=place in failed)
        results[place] = result
        (written if result == STORED else rest).append(slot)
    lease.tier.publish(written)
    release_slots(lease, rest)
    for place, first in lease.aliases.items():
        results[place] = results[first]
    return results


def _result(state: int, *, failed: bool) -> CompleteResult.ValueType:
    if state == DOOMED:
        return DELETED
    if failed:
        return FAILED
    return STORED if state == WRITTEN else NOT_WRITTEN


async def _move_down(
    node: Node, tier: Tier, request_id: str, owner: str, runs: Sequence[Run]
) -> list[tuple[Space, bytes]]:
    """Let the tier below take over blocks whose room an offer needs; return these, by space."""

    def shortage(in_hand: Sequence[int]) -> tuple[int, Sequence[int]]:
        return tier.shortage(request_id, runs, node.leases.room_of(owner), in_hand)

    freed = await node.tiering.demoter.make_room(tier, shortage)
    groups = tier.table.by_origin(freed) if freed else []
    moved = [(origin.space, packed) for origin, packed in tier.packed(groups)]
    tier.occupancy.unpin(freed)
    # The wait may have outlasted these.
    node.refuse_when_closing()
    check_accepts(tier)
    node.registry.check_known(runs[0].space.namespace)
    return moved


def _stamp_copies(node: Node, tier: Tier, request_id: str, runs: Sequence[Run]) -> None:
    """Stamp the copies that other tiers of the node hold."""
    if len(node.tiers) == 1:
        return
    keys = [key for run in runs for key in run.space.keys(run.hashes)]
    for other in node.tiers:
        if other is not tier:
            other.stamp(request_id, keys)


def _answer(
    lease: Lease, reservation: Reservation, evicted: Sequence[tuple[Space, bytes]], ttl: float
) -> PrepareStoreResponse:
    return PrepareStoreResponse(
        lease=lease.reference(),
        ttl=as_duration(ttl),
        outcomes=reservation.outcomes,
        slots=reservation.slots if lease.mapping else (),
        evicted=[
            NamespacedBlocks(
                namespace=space.namespace.fingerprint,
                blocks=BlockSet(group=space.group, scope=space.scope, block_hashes=hashes),
            )
            for space, hashes in evicted
        ],
    )
