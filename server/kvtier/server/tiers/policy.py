"""Which block goes next: the interface of replacement policies."""

from collections.abc import Sequence
from typing import Protocol


class Policy(Protocol):
    """Decides which block to evict.

    A policy sees slots only. It reads two columns of the block table: each slot's start position,
    and the number of leases on it; a leased slot is never a victim.
    """

    def grow(self, slots: int) -> None:
        """Note that the columns have this many slots now."""
        ...

    def stamp(self, request_id: str, slots: Sequence[int]) -> None:
        """Note that a request used these slots, in this order; slots may be new to the policy."""
        ...

    def victims(self, count: int) -> list[int]:
        """Choose and forget `count` slots without leases; there are so many."""
        ...

    def forget(self, slots: Sequence[int]) -> None:
        """Forget slots that were freed for another reason."""
        ...

    def released(self, slots: Sequence[int]) -> None:
        """Note that a lease on these slots ended; those without any left may go again."""
        ...
