"""Mappings of tiers by callers on the same host: their numbers, and whether one is still held."""

from typing import Protocol, cast

from kvtier.server.stores.base import BlockStore
from kvtier.server.stores.host import HostStore
from kvtier.server.tiers.tier import Tier
from kvtier.wire.errors import Reason, failed_precondition


class CudaStore(Protocol):
    """A store whose memory other processes can open by a CUDA IPC handle."""

    capacity_bytes: int
    device_uuid: str

    def ipc_handle(self) -> bytes | None:
        """Return the handle of the whole arena; None where there is no GPU."""


def as_cuda(store: BlockStore) -> CudaStore | None:
    """Return a store that may have a CUDA IPC handle; None for any other."""
    return cast("CudaStore", store) if hasattr(store, "ipc_handle") else None


class Mappings:
    """Gives each mapping a number, from which the byte that its caller locks follows.

    Nothing is kept of a mapping: its lock in the kernel says whether it is held.

    Args:
        first: Where numbers start, at most 2**63; random, so that those of an earlier life of the
            node are not taken for today's.
    """

    def __init__(self, first: int) -> None:
        self._first = first
        self._given = 0

    def give(self) -> int:
        """Return the number of a new mapping, never 0."""
        self._given += 1
        return self._first + self._given

    def lock_offset(self, store: HostStore, mapping: int) -> int:
        """Return the byte, behind the end of the store's file, that a mapping locks."""
        return store.file_bytes + mapping - self._first

    def check(self, tier: Tier, mapping: int) -> None:
        """Raise FAILED_PRECONDITION when slots may not be told to whoever names this mapping."""
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
        """Tell whether whoever has a mapping could still write through it, as far as can be seen.

        A process that holds a CUDA IPC handle cannot be seen to die.
        """
        store = tier.store
        if isinstance(store, HostStore):
            return store.is_locked(self.lock_offset(store, mapping))
        return as_cuda(store) is not None
