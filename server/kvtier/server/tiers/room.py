"""Whether there is room for what is asked, and what is said when there is none."""

from collections.abc import Sequence
from itertools import accumulate

from kvtier.server.tiers.occupancy import Occupancy
from kvtier.server.tiers.table import READY, BlockTable, ByteRoom
from kvtier.wire.errors import KvtierError, Reason, exhausted
from kvtier.wire.sizes import format_size

_RETRY_WHEN_FULL = 0.1


def evictable(occupancy: Occupancy, spared: Sequence[int] = ()) -> int:
    """Return how many blocks may be evicted, without some that are spared."""
    return occupancy.ready - occupancy.leased - len(_idle(occupancy, spared))


def costs_of(occupancy: Occupancy, table: BlockTable, slots: Sequence[int]) -> list[int]:
    """Return what blocks of another table would take: bytes where room is counted in them, else 1.

    Args:
        occupancy: The slots of the tier that would take them.
        table: The other table.
        slots: The blocks' slots there.
    """
    if occupancy.table.room is None:
        return [1] * len(slots)
    origins = [table.origin[slot] for slot in slots]
    costs = {each: occupancy.cost(each.space, each.adapter_name) for each in set(origins)}
    return [costs[origin] for origin in origins]


def fitting(occupancy: Occupancy, costs: Sequence[int], spared: Sequence[int] | None = None) -> int:
    """Return for how many of some blocks, from the first on, there is room.

    Args:
        occupancy: The slots.
        costs: What each block takes, as `costs_of` says.
        spared: When given, what may be evicted counts as room too, but for these slots.
    """
    free = _free(occupancy.table)
    if spared is not None:
        free += _may_free(occupancy, spared)
    return sum(1 for total in accumulate(costs) if total <= free)


def lacking(occupancy: Occupancy, costs: Sequence[int], in_hand: Sequence[int] = ()) -> int:
    """Return how many blocks must go at least to make room for some; 0 or less when there is.

    Where room is counted in bytes it may still be too little when so many are gone: then ask again.

    Args:
        occupancy: The slots.
        costs: What each block takes, as `costs_of` says.
        in_hand: Slots that were freed for it and still count as in use.
    """
    table = occupancy.table
    missing = sum(costs) - _free(table) - sum(costs_of(occupancy, table, in_hand))
    return missing if table.room is None else -(-missing // table.room.largest)


def can_ever_free(occupancy: Occupancy, needed: int, spared: Sequence[int] = ()) -> bool:
    """Tell whether evicting blocks can make room for so much, in the terms of `costs_of`."""
    return needed <= _free(occupancy.table) + _may_free(occupancy, spared)


def no_room(tier: str, occupancy: Occupancy, needed: int, may_go: int) -> KvtierError:
    """Return the error that says what holds a tier's room."""
    table = occupancy.table
    if table.room is not None:
        return _no_bytes(tier, occupancy, table.room, needed, may_go)
    if needed > table.capacity:
        return exhausted(
            f"tier {tier} has {table.capacity} slots and can never take {needed} blocks at once: "
            "offer fewer, or enlarge the tier",
            Reason.TIER_FULL,
        )
    return exhausted(
        f"tier {tier} has no room for {needed} blocks: of its {table.capacity} slots "
        f"{max(0, table.free)} are free and {may_go} may be evicted; {occupancy.leased} are "
        f"leased or pinned, {occupancy.pending} being written, {occupancy.draining} draining, "
        f"{occupancy.quarantined} quarantined",
        Reason.TIER_FULL,
        retry_after=_RETRY_WHEN_FULL,
        metadata=_holders(occupancy),
    )


def _no_bytes(
    tier: str, occupancy: Occupancy, room: ByteRoom, needed: int, may_go: int
) -> KvtierError:
    used = occupancy.table.used_bytes
    return exhausted(
        f"tier {tier} has no room for {needed} blocks: of its {format_size(room.capacity_bytes)} "
        f"{format_size(used)} are in use and {may_go} of {occupancy.ready} blocks may be evicted; "
        f"{occupancy.leased} are leased or pinned, {occupancy.pending} being written, "
        f"{occupancy.draining} draining, {occupancy.quarantined} quarantined",
        Reason.TIER_FULL,
        retry_after=_RETRY_WHEN_FULL,
        metadata=_holders(occupancy),
    )


def _free(table: BlockTable) -> int:
    return table.free if table.room is None else table.room.capacity_bytes - table.used_bytes


def _may_free(occupancy: Occupancy, spared: Sequence[int]) -> int:
    if occupancy.table.room is None:
        return evictable(occupancy, spared)
    kept = costs_of(occupancy, occupancy.table, _idle(occupancy, spared))
    return occupancy.ready_bytes - occupancy.leased_bytes - sum(kept)


def _idle(occupancy: Occupancy, slots: Sequence[int]) -> list[int]:
    """Return those of some slots whose blocks could be evicted."""
    leases, state = occupancy.table.leases, occupancy.table.state
    return [slot for slot in slots if state[slot] == READY and not leases[slot]]


def _holders(occupancy: Occupancy) -> dict[str, str]:
    return {
        "leased_blocks": str(occupancy.leased),
        "pinned_blocks": str(len(occupancy.pins)),
        "pending_blocks": str(occupancy.pending),
        "draining_blocks": str(occupancy.draining),
        "quarantined_blocks": str(occupancy.quarantined),
    }
