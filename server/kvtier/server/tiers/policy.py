"""Which block goes next: the interface of replacement policies."""

from collections.abc import Sequence
from itertools import count
from typing import NamedTuple, Protocol, TypeAlias


class Columns(NamedTuple):
    """What a policy may read of a block table, by slot.

    Attributes:
        capacity: Number of slots.
        keys: Key of the block in each slot, the same bytes for the same block in every tier.
        starts: Start position of the block, in tokens.
        leases: Number of leases on the slot, and of copies of it under way; a slot that has any is
            never a victim.
    """

    capacity: int
    keys: Sequence[bytes]
    starts: Sequence[int]
    leases: Sequence[int]


class Age(NamedTuple):
    """When slots were used last, in terms that every tier of a node understands.

    Attributes:
        group: The request that stamped them last; a call without a request id has a name of its
            own that no request can have.
        stamp: The number of that stamp, ascending over all tiers of a node.
    """

    group: str
    stamp: int


# What the name of a group without a request id begins with; no request id has such a character.
_ANONYMOUS = "\0"
# Of blocks whose age is not known.
OLDEST = Age(_ANONYMOUS, 0)


def age_of_found(tier: str, batch: int) -> Age:
    """Return the age of what a tier found again after a start: older than all that was used since.

    Args:
        tier: The tier's name.
        batch: Which batch it was found in, from 1 for the newest on.
    """
    return Age(f"{_ANONYMOUS}{tier} {batch}", -1 - batch)


Aged: TypeAlias = tuple[Age, Sequence[int]]


class Stamps:
    """Numbers for stamps, ascending, shared by the policies of a node."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def next(self) -> int:
        """Return the next number."""
        return next(self._numbers)

    def age(self, request_id: str) -> Age:
        """Return the age of what a request stamps now; without an id it is a group of its own."""
        number = self.next()
        return Age(request_id or f"{_ANONYMOUS}{number}", number)


class Policy(Protocol):
    """Decides which block to evict.

    A policy sees slots only, and reads what `Columns` says of them.
    """

    def grow(self, slots: int) -> None:
        """Note that the columns have this many slots now."""
        ...

    def stamp(self, request_id: str, slots: Sequence[int]) -> None:
        """Note that a request used these slots, in this order; slots may be new to the policy."""
        ...

    def expect(self, request_id: str, residents: Sequence[int], keys: Sequence[bytes]) -> None:
        """Note what an offer is about to stamp, before room is made for it.

        Args:
            request_id: The request that stores.
            residents: The slots of blocks of the offer that are there.
            keys: The keys of the blocks to come, in the offer's order; they are in no slot.
        """
        ...

    def enter(self, age: Age, slots: Sequence[int]) -> None:
        """Take in slots that hold copies of blocks of this age, which nobody used by that."""
        ...

    def ages(self, slots: Sequence[int]) -> list[Aged]:
        """Return the age of slots, in the order of first appearance, without those not known."""
        ...

    def victims(self, count: int) -> list[Aged]:
        """Choose and forget `count` slots without leases, with their age; there are so many."""
        ...

    def forget(self, slots: Sequence[int]) -> None:
        """Forget slots that were freed for another reason."""
        ...

    def released(self, slots: Sequence[int]) -> None:
        """Note that a lease on these slots ended; those without any left may go again."""
        ...
