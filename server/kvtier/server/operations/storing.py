"""PrepareStore and CompleteStore."""

from array import array
from collections.abc import Sequence

from kvtier.server.leases import STORE, End, Lease, read_lease_id, release_slots
from kvtier.server.node import Node
from kvtier.server.operations.requests import (
    MAX_OFFERED,
    as_duration,
    check_count,
    read_group,
    read_hashes,
    read_mapping,
    read_scope,
    read_text,
    read_ttl,
    request_digest,
)
from kvtier.server.tiers.offer import Reservation, Run
from kvtier.server.tiers.spaces import NamespaceInfo
from kvtier.server.tiers.table import DOOMED, PENDING, WRITTEN
from kvtier.server.tiers.tier import Tier
from kvtier.v1.block_pb2 import BlockRun, BlockSet, NamespacedBlocks
from kvtier.v1.result_pb2 import CompleteResult
from kvtier.v1.tier_service_pb2 import (
    CompleteStoreRequest,
    CompleteStoreResponse,
    PrepareStoreRequest,
    PrepareStoreResponse,
)
from kvtier.wire.errors import Reason, failed_precondition, invalid

STORED = CompleteResult.COMPLETE_RESULT_STORED
FAILED = CompleteResult.COMPLETE_RESULT_FAILED
NOT_WRITTEN = CompleteResult.COMPLETE_RESULT_NOT_WRITTEN
DELETED = CompleteResult.COMPLETE_RESULT_DELETED
NOT_LEASED = CompleteResult.COMPLETE_RESULT_NOT_LEASED


def prepare_store(node: Node, request: PrepareStoreRequest) -> bytes:
    """Reserve what an offer needs; a repeated request gets the first answer."""
    digest = request_digest(request)
    answer = node.leases.first_answer(read_lease_id(request.lease_id), digest)
    return answer if answer is not None else open_store(node, request, digest)[0].answer


def open_store(
    node: Node, request: PrepareStoreRequest, digest: bytes
) -> tuple[Lease, PrepareStoreResponse]:
    """Take a store lease that is not known yet; return it and the answer to the offer."""
    node.refuse_when_closing()
    tier, namespace = node.tier(request.tier), node.registry.get(request.namespace)
    owner = read_text("owner", request.owner, required=True)
    request_id = read_text("request_id", request.request_id, required=False)
    ttl = read_ttl(node, request.ttl, given=request.HasField("ttl"))
    mapping = read_mapping(node, tier, request)
    room = node.leases.room_of(owner)
    runs: list[Run] = []
    try:
        _read_runs(node, tier, namespace, request.runs, runs)
        reservation = tier.reserve(request_id, runs, room)
    finally:
        for run in runs:
            node.spaces.release(run.space)
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
    node.leases.open(lease, ttl)
    response = _answer(lease, reservation, ttl)
    lease.answer = response.SerializeToString()
    return lease, response


def complete_store(node: Node, request: CompleteStoreRequest) -> bytes:
    """Make the written blocks of a lease readable; a repeated request gets the first outcome."""
    outcome = node.leases.first_outcome(request.lease, STORE)
    if outcome is not None:
        return outcome
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


def _read_runs(
    node: Node, tier: Tier, namespace: NamespaceInfo, offered: Sequence[BlockRun], runs: list[Run]
) -> None:
    lists = [run.block_hashes for run in offered]
    check_count(node, namespace, lists, "runs", min(MAX_OFFERED, node.config.limits.hashes))
    for run in offered:
        runs.append(_read_run(node, namespace, run))
        size = runs[-1].space.block_bytes
        if size > tier.slot_bytes:
            raise failed_precondition(
                f"a block of group {run.group} of namespace {namespace.description.name} has "
                f"{size} bytes; the slots of tier {tier.name} have {tier.slot_bytes}: set "
                f"slot_bytes of that tier to {size} or more",
                Reason.BLOCK_TOO_LARGE,
            )


def _read_run(node: Node, namespace: NamespaceInfo, run: BlockRun) -> Run:
    tokens, width = namespace.tokens_per_block, namespace.hash_width
    group, scope = read_group(namespace, run.group), read_scope(run.scope)
    hashes = read_hashes(namespace, run.block_hashes)
    if run.start_position % tokens:
        raise invalid(
            f"start_position is {run.start_position}; it must be a multiple of the "
            f"{tokens} tokens per block"
        )
    if run.start_position + len(hashes) * tokens >= 1 << 63:
        raise invalid(f"start_position is {run.start_position}; the run would end beyond 2^63")
    if len(run.parent_block_hash) != (width if run.start_position else 0):
        raise invalid(
            f"parent_block_hash has {len(run.parent_block_hash)} bytes and start_position is "
            f"{run.start_position}: a run that starts at 0 has no parent, any other has one of "
            f"{width} bytes"
        )
    if run.token_ids and len(run.token_ids) != len(hashes) * tokens:
        raise invalid(
            f"token_ids holds {len(run.token_ids)} ids for {len(hashes)} blocks of {tokens} "
            f"tokens; it must hold {len(hashes) * tokens}, or none"
        )
    adapter_name = read_text("adapter_name", run.adapter_name, required=False)
    return Run(
        node.spaces.use(namespace, group, scope),
        hashes,
        run.parent_block_hash,
        run.start_position,
        array("I", run.token_ids).tobytes() if namespace.keep_token_ids else b"",
        adapter_name,
    )


def _stamp_copies(node: Node, tier: Tier, request_id: str, runs: Sequence[Run]) -> None:
    """Stamp the copies that other tiers of the node hold."""
    if len(node.tiers) == 1:
        return
    keys = [key for run in runs for key in run.space.keys(run.hashes)]
    for other in node.tiers:
        if other is not tier:
            other.stamp(request_id, keys)


def _answer(lease: Lease, reservation: Reservation, ttl: float) -> PrepareStoreResponse:
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
            for space, hashes in reservation.evicted
        ],
    )
