"""The block table: what a tier knows of each slot, in columns."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from kvtier.server.tiers.columns import gather
from kvtier.server.tiers.index import make_index
from kvtier.server.tiers.spaces import PREFIX_BYTES, Space
from kvtier.wire.hashes import split_hashes

# What a slot holds: nothing, a block being written, a whole one waiting for its completion, a
# readable one, or one that is gone while something still holds the slot.
FREE: Final = 0
PENDING: Final = 1
WRITTEN: Final = 2
READY: Final = 3
DOOMED: Final = 4


class Origin:
    """What blocks of one space and one adapter have in common, and their event headers.

    Attributes:
        space: The space.
        adapter_name: The adapter's name.
        cost: Bytes that each block takes of its tier's capacity.
        slots: Number of slots that refer to this origin.
        ready: Number of those that are readable.
        stored_header: The encoded fields that every BlockStored of this origin begins with.
        removed_header: The same for BlockRemoved.
    """

    __slots__ = (
        "adapter_name",
        "cost",
        "ready",
        "removed_header",
        "slots",
        "space",
        "stored_header",
    )

    def __init__(
        self, space: Space, adapter_name: str, stored_header: bytes, removed_header: bytes
    ) -> None:
        self.space = space
        self.adapter_name = adapter_name
        self.cost = 0
        self.slots = 0
        self.ready = 0
        self.stored_header = stored_header
        self.removed_header = removed_header


Groups = list[tuple[Origin, Sequence[int]]]


class Birth(NamedTuple):
    """One store: its number on the tier, ascending, and when it was, in seconds since 1970."""

    number: int
    time: float


_NEVER: Final = Birth(0, 0.0)
_NOWHERE: Final = Origin.__new__(Origin)
# More slots than any tier has.
_NO_LIMIT: Final = 1 << 40
# Slots that the columns grow by at a time: a tier of many small slots costs what it holds.
_GROWTH: Final = 1 << 14


@dataclass(slots=True)
class ByteRoom:
    """Room that is counted in bytes, where blocks take what they need and no slot of one size.

    Attributes:
        capacity_bytes: Bytes that blocks may take.
        largest: What the largest block takes.
    """

    capacity_bytes: int
    largest: int


class BlockTable:
    """Columns by slot, a stack of free slots, and the index from keys to slots.

    A slot's number is one object that the free stack, the index, the policy and the leases share;
    so are the numbers in `start`. The columns of a free slot still say what was there last. Columns
    are lists, not arrays, because reading a list is three times as fast.

    Args:
        capacity: Blocks that may be held.
        spare: Slots beyond that, for blocks that change places with others.
        room: Where room is counted in bytes: slots are numbers then, without end.

    Attributes:
        capacity: Blocks that may be held.
        used_bytes: Bytes of the tier's capacity that slots in use take.
        room: As given.
        lent: Slots in use beyond the capacity, for blocks whose room others will leave.
        state: FREE, PENDING, WRITTEN, READY or DOOMED.
        leases: Number of leases and copies under way.
        key: Key of the block.
        parent: Key of the block's parent; None at position 0.
        start: Start position of the block, in tokens.
        origin: Origin of the block.
        birth: The store that made the block readable.
        checksum: XXH3-64 of the payload.
        token_ids: Token ids, as 32-bit numbers, of the blocks that keep them.
    """

    def __init__(self, capacity: int, spare: int = 0, room: ByteRoom | None = None) -> None:
        self.capacity = capacity
        self.lent = 0
        self.used_bytes = 0
        self.room = room
        self._slots = capacity + spare if room is None else _NO_LIMIT
        self.state: list[int] = []
        self.leases: list[int] = []
        self.key: list[bytes] = []
        self.parent: list[bytes | None] = []
        self.start: list[int] = []
        self.origin: list[Origin] = []
        self.birth: list[Birth] = []
        self.checksum = array("Q")
        self.token_ids: dict[int, bytes] = {}
        self.index = make_index(capacity)
        self._free: list[int] = []

    def __len__(self) -> int:
        """Return the number of slots that were ever used, or soon will be."""
        return len(self.state)

    @property
    def free(self) -> int:
        """Number of blocks for which there is room, of the largest where it is counted in bytes."""
        if self.room is not None:
            return (self.room.capacity_bytes - self.used_bytes) // self.room.largest
        return self.capacity - len(self) + len(self._free) + self.lent

    @property
    def spare(self) -> int:
        """Number of slots that no block is in, within the capacity or beyond."""
        return self._slots - len(self) + len(self._free)

    @property
    def lendable(self) -> int:
        """Number of slots that may yet be used beyond the capacity."""
        return min(self.spare, self._slots - self.capacity - self.lent) if self.room is None else 0

    def take(self, count: int) -> list[int]:
        """Take `count` free slots; the caller knows that there are so many."""
        while len(self._free) < count:
            self._grow()
        first = len(self._free) - count
        slots = self._free[first:]
        del self._free[first:]
        slots.reverse()
        return slots

    def _grow(self) -> None:
        first = len(self)
        count = min(_GROWTH, self._slots - first)
        assert count > 0, "more slots were taken than there are"
        self.state += [FREE] * count
        self.leases += [0] * count
        self.key += [b""] * count
        self.parent += [None] * count
        self.start += [0] * count
        self.origin += [_NOWHERE] * count
        self.birth += [_NEVER] * count
        self.checksum.frombytes(bytes(8 * count))
        self._free[:0] = range(first + count - 1, first - 1, -1)

    def enter(
        self,
        slots: Sequence[int],
        keys: Sequence[bytes],
        parents: Sequence[bytes | None],
        starts: Sequence[int],
        origin: Origin,
    ) -> None:
        """Note the blocks that will be written into slots, each under its first lease."""
        key, parent, start, origins = self.key, self.parent, self.start, self.origin
        state, leases = self.state, self.leases
        for slot, a_key, a_parent, a_start in zip(slots, keys, parents, starts, strict=True):
            key[slot] = a_key
            parent[slot] = a_parent
            start[slot] = a_start
            origins[slot] = origin
            state[slot] = PENDING
            leases[slot] = 1
        self.index.put_many(keys, slots)

    def give_back(self, slots: Sequence[int]) -> None:
        """Free slots that are in the index no more and have no leases."""
        state, token_ids = self.state, self.token_ids
        for slot in slots:
            state[slot] = FREE
        if token_ids:
            for slot in slots:
                token_ids.pop(slot, None)
        self._free.extend(reversed(slots))

    def keys_of(self, slots: Sequence[int]) -> tuple[bytes, ...]:
        """Return the keys of slots."""
        return gather(slots)(self.key)

    def by_origin(self, slots: Sequence[int]) -> Groups:
        """Group slots, at least one, by their origin, in the order of first appearance."""
        origins = gather(slots)(self.origin)
        if origins.count(origins[0]) == len(origins):
            return [(origins[0], slots)]
        groups: dict[Origin, list[int]] = {}
        for origin, slot in zip(origins, slots, strict=True):
            groups.setdefault(origin, []).append(slot)
        return list(groups.items())

    def packed_hashes(self, slots: Sequence[int], width: int) -> bytes:
        """Return the hashes of blocks of one width, one after the other."""
        return b"".join(split_hashes(b"".join(self.keys_of(slots)), width, skip=PREFIX_BYTES))
