"""A large table from hashes to bit masks, of which no call stands still for long."""

from collections.abc import Callable, Iterable, Iterator, Sequence

# One dict of so many entries is rehashed, or walked, in a millisecond.
_LARGEST_DICT = 1 << 13
_SHARDS = 256


class Memo(dict[int, int]):
    """A function from mask to mask whose results are kept, so that equal masks are one object.

    Few masks occur in many blocks: a lookup costs a fraction of the arithmetic, and a table of a
    million blocks holds a few mask objects.

    Args:
        function: The function.
    """

    _MOST = 1 << 10

    def __init__(self, function: Callable[[int], int]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, mask: int) -> int:
        if len(self) >= self._MOST:
            self.clear()
        result = self[mask] = self._function(mask)
        return result


class MaskTable:
    """From a hash to a mask that is not 0.

    Beyond 8,192 entries it is 256 dicts, by the hash's last byte, since one dict of a million
    entries rehashes in 60 to 90 ms. The last byte of a hash is as random as any; where an engine's
    is not, a rehash takes longer and no answer changes.

    Attributes:
        entries: Number of hashes.
    """

    def __init__(self) -> None:
        self.entries = 0
        self._shards: list[dict[bytes, int]] = [{}]
        self._gets = [self._shards[0].get]

    def get_many(self, hashes: Iterable[bytes]) -> list[int]:
        """Return the mask of each hash, 0 where there is none."""
        gets = self._gets
        if len(gets) == 1:
            get = gets[0]
            return [get(each, 0) for each in hashes]
        return [gets[each[-1]](each, 0) for each in hashes]

    def change_many(
        self, hashes: Sequence[bytes], before: Sequence[int], after: Sequence[int]
    ) -> None:
        """Set the masks of distinct hashes; a hash whose mask becomes 0 is taken out.

        Args:
            hashes: The hashes.
            before: What `get_many` returned for them.
            after: Their masks to be.
        """
        shards = self._shards
        only = shards[0] if len(shards) == 1 else None
        for each, mask in zip(hashes, after, strict=True):
            shard = only if only is not None else shards[each[-1]]
            if mask:
                shard[each] = mask
            else:
                shard.pop(each, None)
        self.entries += before.count(0) - after.count(0)
        if self.entries > _LARGEST_DICT and len(self._shards) == 1:
            self._split()

    def rewrite(self, step: int, change: Memo) -> int | None:
        """Change the masks of one shard, dropping those that become 0.

        Args:
            step: 0 to begin with, then what the call before returned.
            change: From the old mask to the new one.

        Returns:
            The next step; None when every shard has been rewritten.
        """
        old = self._shards[step]
        shard = {each: after for each, mask in old.items() if (after := change[mask])}
        self.entries += len(shard) - len(old)
        self._shards[step], self._gets[step] = shard, shard.get
        return step + 1 if step + 1 < len(self._shards) else None

    def shard_size(self, step: int) -> int:
        """Return how many hashes a step of `rewrite` looks at."""
        return len(self._shards[step])

    def items(self) -> Iterator[tuple[bytes, int]]:
        """Return every hash and its mask."""
        for shard in self._shards:
            yield from shard.items()

    def _split(self) -> None:
        shards: list[dict[bytes, int]] = [{} for _ in range(_SHARDS)]
        for each, mask in self.items():
            shards[each[-1]][each] = mask
        self._shards, self._gets = shards, [shard.get for shard in shards]
