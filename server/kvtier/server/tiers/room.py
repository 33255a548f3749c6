"""Whether there is room for what is asked, and what is said when there is none."""

from collections.abc import Sequence

from kvtier.server.tiers.occupancy import Occupancy
from kvtier.server.tiers.table import READY
from kvtier.wire.errors import KvtierError, Reason, exhausted

_RETRY_WHEN_FULL = 0.1


def evictable(occupancy: Occupancy, spared: Sequence[int] = ()) -> int:
    """Return how many blocks may be evicted, without some that are spared."""
    leases, state = occupancy.table.leases, occupancy.table.state
    kept = sum(1 for slot in spared if state[slot] == READY and not leases[slot])
    return occupancy.ready - occupancy.leased - kept


def no_room(tier: str, occupancy: Occupancy, needed: int, may_go: int) -> KvtierError:
    """Return the error that says what holds a tier's room."""
    table = occupancy.table
    if needed > table.capacity:
        return exhausted(
            f"tier {tier} has {table.capacity} slots and can never take {needed} blocks at once: "
            "offer fewer, or enlarge the tier",
            Reason.TIER_FULL,
        )
    return exhausted(
        f"tier {tier} has no room for {needed} blocks: of its {table.capacity} slots "
        f"{max(0, table.free)} are free and {may_go} may be evicted; {occupancy.leased} are "
        f"leased or pinned, {occupancy.pending} being written, {occupancy.draining} draining",
        Reason.TIER_FULL,
        retry_after=_RETRY_WHEN_FULL,
        metadata={
            "leased_blocks": str(occupancy.leased),
            "pinned_blocks": str(len(occupancy.pins)),
            "pending_blocks": str(occupancy.pending),
            "draining_blocks": str(occupancy.draining),
        },
    )
