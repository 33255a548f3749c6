"""From keys to slots."""

from collections.abc import Iterable

_SHARDS = 256


class KeyIndex:
    """A dict from keys to slots, in shards by the key's last byte.

    A dict of a million entries rehashes in 60 to 90 ms, all at once; each of 256 shards takes a
    256th of that, at a time of its own. The last byte of a hash is as random as any. Where an
    engine's is not, the shards are uneven and a rehash takes longer; no answer changes.
    """

    __slots__ = ("_gets", "_shards")

    def __init__(self) -> None:
        self._shards: list[dict[bytes, int]] = [{} for _ in range(_SHARDS)]
        self._gets = [shard.get for shard in self._shards]

    def __len__(self) -> int:
        return sum(map(len, self._shards))

    def get(self, key: bytes) -> int | None:
        """Return the slot of a key, or None."""
        return self._gets[key[-1]](key)

    def get_many(self, keys: Iterable[bytes]) -> list[int | None]:
        """Return the slot of each key, None where there is none."""
        gets = self._gets
        return [gets[key[-1]](key) for key in keys]

    def put_many(self, keys: Iterable[bytes], slots: Iterable[int]) -> None:
        """Enter keys that are not there yet."""
        shards = self._shards
        for key, slot in zip(keys, slots, strict=True):
            shards[key[-1]][key] = slot

    def drop_many(self, keys: Iterable[bytes]) -> None:
        """Take out keys that are there."""
        shards = self._shards
        for key in keys:
            del shards[key[-1]][key]

    def prefix(self, keys: Iterable[bytes], state: list[int], wanted: int) -> int:
        """Return how many keys from the first on are there in a wanted state."""
        gets = self._gets
        length = 0
        for key in keys:
            slot = gets[key[-1]](key)
            if slot is None or state[slot] != wanted:
                break
            length += 1
        return length
