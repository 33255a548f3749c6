"""From keys to slots."""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import TypeAlias

# One dict of this many entries rehashes in some ten milliseconds.
_LARGEST_DICT = 1 << 17
# Shards fill alike, so that several may rehash within one call: each is kept small.
_LARGEST_SHARD = 1 << 14
_MAX_SHARDS = 256


class PlainIndex:
    """One dict from keys to slots; every batch is a single pass in C."""

    __slots__ = ("_slots",)

    def __init__(self) -> None:
        self._slots: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._slots)

    def get(self, key: bytes) -> int | None:
        """Return the slot of a key, or None."""
        return self._slots.get(key)

    def get_many(self, keys: Iterable[bytes]) -> list[int | None]:
        """Return the slot of each key, None where there is none."""
        return list(map(self._slots.get, keys))

    def put_many(self, keys: Sequence[bytes], slots: Sequence[int]) -> None:
        """Enter keys that are not there yet."""
        self._slots.update(zip(keys, slots, strict=True))

    def drop_many(self, keys: Iterable[bytes]) -> None:
        """Take out keys that are there."""
        deque(map(self._slots.pop, keys), maxlen=0)

    def prefix(self, keys: Iterable[bytes], state: Sequence[int], wanted: int) -> int:
        """Return how many keys from the first on are there in a wanted state."""
        return _prefix(map(self._slots.get, keys), state, wanted)


class ShardedIndex:
    """The same in several dicts, by the key's last byte.

    A dict of a million entries rehashes in 60 to 90 ms, all at once; each shard takes its part of
    that, at a time of its own. The last byte of a hash is as random as any. Where an engine's is
    not, the shards are uneven and a rehash takes longer; no answer changes.

    Args:
        shards: The number of dicts, a power of two up to 256.
    """

    __slots__ = ("_by_byte", "_gets", "_shards")

    def __init__(self, shards: int) -> None:
        self._shards: list[dict[bytes, int]] = [{} for _ in range(shards)]
        self._by_byte = [self._shards[byte % shards] for byte in range(256)]
        self._gets = [shard.get for shard in self._by_byte]

    def __len__(self) -> int:
        return sum(map(len, self._shards))

    def get(self, key: bytes) -> int | None:
        """Return the slot of a key, or None."""
        return self._gets[key[-1]](key)

    def get_many(self, keys: Iterable[bytes]) -> list[int | None]:
        """Return the slot of each key, None where there is none."""
        gets = self._gets
        return [gets[key[-1]](key) for key in keys]

    def put_many(self, keys: Sequence[bytes], slots: Sequence[int]) -> None:
        """Enter keys that are not there yet."""
        shards = self._by_byte
        for key, slot in zip(keys, slots, strict=True):
            shards[key[-1]][key] = slot

    def drop_many(self, keys: Iterable[bytes]) -> None:
        """Take out keys that are there."""
        shards = self._by_byte
        for key in keys:
            del shards[key[-1]][key]

    def prefix(self, keys: Iterable[bytes], state: Sequence[int], wanted: int) -> int:
        """Return how many keys from the first on are there in a wanted state."""
        return _prefix(map(self.get, keys), state, wanted)


Index: TypeAlias = PlainIndex | ShardedIndex


def make_index(capacity: int) -> Index:
    """Return an index for that many keys, in which no single call has a long rehash."""
    if capacity <= _LARGEST_DICT:
        return PlainIndex()
    shards = 1
    while shards < _MAX_SHARDS and shards * _LARGEST_SHARD < capacity:
        shards *= 2
    return ShardedIndex(shards)


def _prefix(found: Iterable[int | None], state: Sequence[int], wanted: int) -> int:
    length = 0
    for slot in found:
        if slot is None or state[slot] != wanted:
            break
        length += 1
    return length
