"""What there is to tell of each tier of a node."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from kvtier.server.metrics.families import Family, Read, word
from kvtier.server.node import Node
from kvtier.server.tiers.counters import CLEARED
from kvtier.server.tiers.tier import Tier
from kvtier.v1.block_pb2 import Medium, RemovalReason
from kvtier.v1.event_service_pb2 import TierState

_REASONS = {
    value: word(name, "REMOVAL_REASON_") for name, value in RemovalReason.items() if value
} | {CLEARED: "cleared"}
_STATES = {
    TierState.TIER_STATE_READY: "ready",
    TierState.TIER_STATE_RECOVERING: "recovering",
    TierState.TIER_STATE_READ_ONLY: "read_only",
    TierState.TIER_STATE_SILENT: "silent",
}

_Values = Mapping[tuple[str, ...], float]


class _Reading(NamedTuple):
    family: Family
    read: Callable[[Node, Tier], _Values]


def _one(name: str, meaning: str, read: Callable[[Tier], float]) -> _Reading:
    return _with_node(name, meaning, lambda _, tier: read(tier))


def _with_node(name: str, meaning: str, read: Callable[[Node, Tier], float]) -> _Reading:
    family = Family(f"kvtier_tier_{name}", meaning, ("tier", "medium"))
    return _Reading(family, lambda node, tier: {(): read(node, tier)})


def _by(
    label: str, name: str, meaning: str, read: Callable[[Tier], Mapping[str, float]]
) -> _Reading:
    family = Family(f"kvtier_tier_{name}", meaning, ("tier", "medium", label))
    return _Reading(family, lambda _, tier: {(key,): value for key, value in read(tier).items()})


def _leased_bytes(tier: Tier) -> float:
    occupancy = tier.occupancy
    by_slot = tier.table.room is None
    return occupancy.leased * tier.slot_bytes if by_slot else occupancy.leased_bytes


def _blocks(tier: Tier) -> Mapping[str, float]:
    occupancy = tier.occupancy
    return {
        "ready": occupancy.ready,
        "pending": occupancy.pending,
        "leased": occupancy.leased,
        "pinned": len(occupancy.pins),
        "draining": occupancy.draining,
        "quarantined": occupancy.quarantined,
    }


def _oldest_lease(node: Node, tier: Tier) -> float:
    lease = node.leases.accounts.oldest(tier)
    return 0.0 if lease is None else node.clock.monotonic() - lease.opened


def _state(tier: Tier) -> Mapping[str, float]:
    now = tier.health.state
    if tier.announcer.silent and now == TierState.TIER_STATE_READY:
        now = TierState.TIER_STATE_SILENT
    return {name: float(state == now) for state, name in _STATES.items()}


def _recovered(tier: Tier) -> float:
    health = tier.health
    if not health.recovering:
        return 1.0
    return health.looked_at / health.to_look_at if health.to_look_at else 0.0


def _removals(tier: Tier) -> Mapping[str, float]:
    return {name: tier.tally.removals[reason] for reason, name in _REASONS.items()}


_READINGS = (
    _one("capacity_bytes", "Bytes that the tier has for blocks.", lambda t: t.capacity_bytes),
    _one("used_bytes", "Bytes of them that blocks take.", lambda t: t.table.used_bytes),
    _one(
        "leased_bytes", "Bytes of them under load leases and pins, which cannot go.", _leased_bytes
    ),
    _by(
        "state",
        "blocks",
        "Blocks by state. ready: readable; leased and pinned: those of them under leases or pins, "
        "and under pins; pending: being written; draining: gone, and still held; quarantined: "
        "gone, and a late writer may be writing there.",
        _blocks,
    ),
    _with_node(
        "oldest_lease_seconds",
        "Age of the oldest lease on blocks of the tier, without pins; 0 when there is none.",
        _oldest_lease,
    ),
    _by("state", "state", "1 for the state that the tier is in, 0 for each other.", _state),
    _one(
        "recovered_ratio",
        "Share of what was there before the start that recovery has looked at; 1 when it is done.",
        _recovered,
    ),
    _one(
        "hits_total",
        "Blocks that PrepareLoad and ReadBlocks asked the tier for and that were there, as often "
        "as they were asked for. The hit rate of loads is hits / (hits + kvtier_misses_total); "
        "lookups are counted apart, so that who looks up and then loads counts once.",
        lambda t: t.tally.hits,
    ),
    _one(
        "loads_total",
        "Blocks granted to load leases and reads, each once for each call.",
        lambda t: t.counters.loaded,
    ),
    _one("stores_total", "Blocks that became readable.", lambda t: t.counters.stored),
    _by("reason", "removals_total", "Blocks that ceased to be readable.", _removals),
    _one(
        "demotions_total",
        "Removed blocks that a slower tier took over.",
        lambda t: t.counters.demoted,
    ),
    _one(
        "promotions_total",
        "Stored blocks that were brought up from a slower tier.",
        lambda t: t.counters.promoted,
    ),
    _one(
        "corruptions_total",
        "Blocks whose bytes did not match their checksum.",
        lambda t: t.counters.corrupt,
    ),
    _one(
        "dropped_total",
        "Evicted blocks that the next tier should have taken over and did not.",
        lambda t: t.counters.dropped,
    ),
    _one(
        "copies_failed_total",
        "Copies to the tier that were given up, for want of room or because of an error.",
        lambda t: t.counters.copies_failed,
    ),
    _one("refused_total", "Offers refused for want of room.", lambda t: t.counters.refused),
    _one(
        "mismatched_total",
        "Offers of a block that is there with another parent, position or tokens.",
        lambda t: t.counters.mismatched,
    ),
    _one(
        "abandoned_total",
        "Blocks of store leases that failed, expired or were given back.",
        lambda t: t.counters.abandoned,
    ),
    _one(
        "written_through_total",
        "Stored blocks that are copies which a faster tier wrote through.",
        lambda t: t.counters.written_through,
    ),
    _one(
        "deferred_total",
        "Offered blocks that store_threshold put off.",
        lambda t: t.counters.deferred,
    ),
    _one(
        "trimmed_total",
        "Blocks that the start left out because they are beyond the capacity.",
        lambda t: t.counters.trimmed,
    ),
    _one(
        "scrubbed_total",
        "Blocks that the background check has read and compared.",
        lambda t: t.counters.scrubbed,
    ),
)

FAMILIES = tuple(reading.family for reading in _READINGS)


def collect_tiers(node: Node) -> Iterator[Read]:
    """Read all that there is to tell of a node's tiers, in a time that blocks do not add to."""
    for family, read in _READINGS:
        yield family.of(_rows(node, read))


def _rows(
    node: Node, read: Callable[[Node, Tier], _Values]
) -> Iterable[tuple[tuple[str, ...], float]]:
    for tier in node.tiers:
        medium = word(Medium.Name(Medium.ValueType(tier.store.medium)), "MEDIUM_")
        for labels, value in read(node, tier).items():
            yield (tier.name, medium, *labels), value
