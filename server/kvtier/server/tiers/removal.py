"""Removing blocks of a tier because somebody asked for it."""

from collections.abc import Sequence

from kvtier.server.tiers.counters import CLEARED
from kvtier.server.tiers.spaces import NamespaceInfo
from kvtier.server.tiers.table import PENDING, READY, WRITTEN
from kvtier.server.tiers.tier import Tier
from kvtier.v1.block_pb2 import REMOVAL_REASON_DELETED
from kvtier.v1.result_pb2 import (
    DELETE_RESULT_BUSY,
    DELETE_RESULT_DELETED,
    DELETE_RESULT_NOT_FOUND,
    DELETE_RESULT_UNAVAILABLE,
    DeleteResult,
)
from kvtier.wire.errors import Reason, failed_precondition


def delete(tier: Tier, keys: Sequence[bytes], *, force: bool) -> list[DeleteResult.ValueType]:
    """Remove blocks; return the `DeleteResult` of each, UNAVAILABLE for all when that cannot be."""
    if not tier.removes:
        return [DELETE_RESULT_UNAVAILABLE] * len(keys)
    found = tier.table.index.get_many(keys)
    busy, state = tier.occupancy.busy, tier.table.state
    spared = {slot for slot in found if slot is not None and not force and busy(slot)}
    going = [slot for slot in dict.fromkeys(found) if slot is not None and slot not in spared]
    written = [slot for slot in going if state[slot] in {PENDING, WRITTEN}]
    tier.remove([s for s in going if state[s] == READY], REMOVAL_REASON_DELETED)
    tier.cut_off(written)
    return [
        DELETE_RESULT_NOT_FOUND
        if slot is None
        else DELETE_RESULT_BUSY
        if slot in spared
        else DELETE_RESULT_DELETED
        for slot in found
    ]


def check_clear(tier: Tier, namespace: NamespaceInfo | None) -> None:
    """Raise FAILED_PRECONDITION when a clear would meet blocks under load leases or pins."""
    if not tier.occupancy.leased:
        return
    busy = sum(map(tier.occupancy.busy, _slots(tier, namespace, READY)))
    if busy:
        raise failed_precondition(
            f"{busy} blocks of tier {tier.name} are under load leases or pins: wait, end them, or "
            "use force",
            Reason.BLOCKS_LEASED,
            {"leased_blocks": str(busy)},
        )


def clear(tier: Tier, namespace: NamespaceInfo | None) -> int:
    """Remove every readable block, or those of one namespace; return how many there were.

    Copies that are on their way in are given up; the store leases were ended before.
    """
    slots = _slots(tier, namespace, READY)
    if slots:
        tier.announcer.cleared(namespace.fingerprint if namespace else b"")
        tier.drop(tier.table.by_origin(slots), slots, CLEARED)
    if tier.keeping and namespace is None:
        tier.keeping.discard_strangers()
    if tier.occupancy.pending:
        tier.occupancy.cut_off(_slots(tier, namespace, PENDING))
    return len(slots)


def _slots(tier: Tier, namespace: NamespaceInfo | None, state: int) -> list[int]:
    table = tier.table
    slots = [slot for slot, is_in in enumerate(table.state) if is_in == state]
    if namespace is None:
        return slots
    return [slot for slot in slots if table.origin[slot].space.namespace is namespace]
