"""Mappings of tiers by callers on the same host: their numbers, and whether one is still held."""

from kvtier.server.stores.host import HostStore
from kvtier.server.tiers.tier import Tier
from kvtier.wire.errors import KvtierError, Reason, failed_precondition


class Mappings:
    """Gives each mapping a number, from which the byte that its caller locks follows.

    Nothing is kept of a mapping: its lock in the kernel says whether it is held. A process that
    has a CUDA IPC handle cannot be seen to die, so a mapping of a GPU tier always counts as held.

    Args:
        first: Where numbers start, at most 2**63; random, so that those of an earlier life of the
            node are not taken for today's.
    """

    def __init__(self, first: int) -> None:
        self._first = first
        self._given = 0
        self._by_handle: set[Tier] = set()

    def give(self, tier: Tier) -> int:
        """Return the number of a new mapping of a tier, never 0."""
        self._given += 1
        if not isinstance(tier.store, HostStore):
            self._by_handle.add(tier)
        return self._first + self._given

    def lock_offset(self, store: HostStore, mapping: int) -> int:
        """Return the byte, behind the end of the store's file, that a mapping locks."""
        return store.file_bytes + mapping - self._first

    def check(self, tier: Tier, mapping: int) -> None:
        """Raise FAILED_PRECONDITION when slots may not be told to whoever names this mapping."""
        if tier.keeping is not None:
            raise not_mappable(tier, "its blocks are not in memory")
        if not 0 < mapping - self._first <= self._given:
            raise failed_precondition(
                f"mapping {mapping} is not known: it is of an earlier life of the node; call "
                f"MapTier for tier {tier.name} again",
                Reason.MAPPING_UNKNOWN,
            )
        if not self.is_held(tier, mapping):
            raise failed_precondition(
                f"mapping {mapping} of tier {tier.name} is not locked: take the write lock at the "
                "lock_offset that MapTier told, and hold it while the tier is mapped",
                Reason.MAPPING_UNKNOWN,
            )

    def is_held(self, tier: Tier, mapping: int) -> bool:
        """Tell whether a mapping could still be written through, as far as can be seen."""
        store = tier.store
        if isinstance(store, HostStore):
            return store.is_locked(self.lock_offset(store, mapping))
        return tier in self._by_handle


def not_mappable(tier: Tier, why: str) -> KvtierError:
    """Return the error of a tier whose slots callers cannot reach."""
    return failed_precondition(
        f"tier {tier.name} ({tier.store.device}) is not mappable, {why}: use WriteBlocks and "
        "ReadBlocks",
        Reason.NOT_MAPPABLE,
    )
