"""GetNode, ListTiers, RegisterNamespace and ListNamespaces."""

from dataclasses import asdict

from google.protobuf.timestamp_pb2 import Timestamp

from kvtier.server.leases import Lease
from kvtier.server.node import Node
from kvtier.server.operations.requests import MAX_OFFERED, as_duration
from kvtier.server.tiers.tier import Tier
from kvtier.v1.block_pb2 import Medium, Position
from kvtier.v1.event_service_pb2 import TierState
from kvtier.v1.tier_pb2 import Limits, TierCounters, TierLease
from kvtier.v1.tier_pb2 import Node as NodeMessage
from kvtier.v1.tier_pb2 import Tier as TierMessage
from kvtier.v1.tier_service_pb2 import (
    GetNodeResponse,
    ListNamespacesResponse,
    ListTiersResponse,
    RegisterNamespaceRequest,
    RegisterNamespaceResponse,
)
from kvtier.wire.errors import invalid


def get_node(node: Node) -> GetNodeResponse:
    """Describe the node."""
    started = Timestamp()
    started.FromNanoseconds(int(node.start_time * 1e9))
    return GetNodeResponse(
        node=NodeMessage(
            node_id=node.node_id,
            incarnation=node.incarnation,
            version=node.version,
            start_time=started,
            head=Position(epoch=node.log.epoch, sequence=node.log.head),
            oldest_sequence=node.log.oldest,
            followers=node.followers,
            draining=node.closing,
            leases=len(node.leases),
            limits=_limits(node),
        )
    )


def list_tiers(node: Node) -> ListTiersResponse:
    """Describe the tiers."""
    return ListTiersResponse(tiers=[_tier(node, tier) for tier in node.tiers])


def register_namespace(node: Node, request: RegisterNamespaceRequest) -> RegisterNamespaceResponse:
    """Make a namespace known."""
    if not request.HasField("namespace"):
        raise invalid("namespace is missing; describe the namespace")
    info = node.register(request.namespace)
    return RegisterNamespaceResponse(fingerprint=info.fingerprint)


def list_namespaces(node: Node) -> ListNamespacesResponse:
    """Describe the namespaces."""
    return ListNamespacesResponse(namespaces=[info.description for info in node.registry.by_name()])


def _limits(node: Node) -> Limits:
    limits = node.config.limits
    return Limits(
        message_bytes=limits.message_bytes,
        hashes=limits.hashes,
        block_bytes=limits.block_bytes,
        lease_ttl=as_duration(limits.lease_ttl_max),
        pin_ttl=as_duration(limits.pin_ttl_max),
        leases_per_owner=limits.leases_per_owner,
        offered_blocks=min(MAX_OFFERED, limits.hashes),
        leased_bytes_per_owner=limits.leased_bytes_per_owner,
        pinned_bytes_per_owner=limits.pinned_bytes_per_owner,
        followers=limits.followers,
        namespaces=limits.namespaces,
    )


def _tier(node: Node, tier: Tier) -> TierMessage:
    described = _any_tier(node, tier)
    if tier.keeping:
        health = tier.keeping.store.health
        described.recovered_blocks = health.looked_at
        described.recovering_blocks = health.to_look_at
    return described


def _any_tier(node: Node, tier: Tier) -> TierMessage:
    occupancy, oldest = tier.occupancy, node.leases.accounts.oldest(tier)
    silent = tier.announcer.silent and tier.health.state == TierState.TIER_STATE_READY
    return TierMessage(
        name=tier.name,
        medium=Medium.ValueType(tier.store.medium),
        device=tier.store.device,
        state=TierState.TIER_STATE_SILENT if silent else tier.health.state,
        state_reason=tier.health.reason,
        policy=tier.policy_name,
        capacity_bytes=tier.capacity_bytes,
        used_bytes=tier.table.used_bytes,
        locality=tier.locality,
        slot_bytes=tier.slot_bytes,
        capacity_blocks=tier.table.capacity,
        ready_blocks=occupancy.ready,
        pending_blocks=occupancy.pending,
        leased_blocks=occupancy.leased,
        draining_blocks=occupancy.draining,
        on_evict=tier.below.name if tier.below else "",
        write_through=[target.name for target in node.tiering.written_through(tier)],
        quarantined_blocks=occupancy.quarantined,
        counters=TierCounters(**asdict(tier.counters)),
        store_threshold=tier.threshold.offers if tier.threshold else 1,
        pinned_blocks=len(occupancy.pins),
        oldest_lease=_tier_lease(node, oldest) if oldest is not None else None,
    )


def _tier_lease(node: Node, lease: Lease) -> TierLease:
    return TierLease(
        owner=lease.owner,
        kind=lease.kind,
        age=as_duration(node.clock.monotonic() - lease.opened),
        remaining=as_duration(node.leases.seconds_left(lease)),
        blocks=len(lease.slots),
    )
