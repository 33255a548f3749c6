"""The keys of evicted blocks, in order: what `arc` learns from."""

from collections.abc import Sequence
from typing import Final

from kvtier.server.tiers.index import make_index

# The two lists, by the place of their ends in the ring of links.
B1: Final = 0
B2: Final = 1


class Ghosts:
    """Two lists of keys, the oldest first; a key is in one of them or in none.

    Every operation is O(1) for each key it names: a list is a ring of links through numbered nodes,
    whose two ends are one node, and an index leads from a key to its node.

    Args:
        capacity: Number of slots of the tier; the lists never hold more than twice as many keys.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._nodes = make_index(2 * capacity)
        self._list = [B1, B2]
        self._keys = [b"", b""]
        self._next = [B1, B2]
        self._previous = [B1, B2]
        self._free: list[int] = []
        self.sizes = [0, 0]

    def find(self, keys: Sequence[bytes]) -> list[int | None]:
        """Return the list that each key is in, None for those that are in none."""
        if not any(self.sizes):
            return [None] * len(keys)
        nodes = self._nodes.get_many(keys)
        if nodes.count(None) == len(nodes):
            return nodes
        return [None if node is None else self._list[node] for node in nodes]

    def add(self, which: int, keys: Sequence[bytes]) -> None:
        """Add keys that are in no list, as the newest."""
        nodes = self._take(len(keys))
        onward, back, lists, last = self._next, self._previous, self._list, self._previous[which]
        for node, key in zip(nodes, keys, strict=True):
            self._keys[node] = key
            lists[node] = which
            onward[last] = node
            back[node] = last
            last = node
        onward[last] = which
        back[which] = last
        self.sizes[which] += len(nodes)
        self._nodes.put_many(keys, nodes)

    def drop(self, keys: Sequence[bytes]) -> None:
        """Drop keys that are in a list."""
        onward, back = self._next, self._previous
        for node in self._nodes.get_many(keys):
            assert node is not None
            before, after = back[node], onward[node]
            onward[before], back[after] = after, before
            self.sizes[self._list[node]] -= 1
            self._free.append(node)
        self._nodes.drop_many(keys)

    def trim(self, once: int, again: int) -> None:
        """Drop the oldest keys beyond the bounds of the paper, given the sizes of T1 and T2."""
        first = once + self.sizes[B1] - self._capacity
        if first > 0:
            self._drop_oldest(B1, first)
        both = once + again + sum(self.sizes) - 2 * self._capacity
        if both > 0:
            self._drop_oldest(B2, both)

    def _drop_oldest(self, which: int, count: int) -> None:
        onward, keys = self._next, self._keys
        node, dropped = which, []
        for _ in range(min(count, self.sizes[which])):
            node = onward[node]
            dropped.append(keys[node])
            self._free.append(node)
        after = onward[node]
        onward[which], self._previous[after] = after, which
        self.sizes[which] -= len(dropped)
        self._nodes.drop_many(dropped)

    def _take(self, count: int) -> list[int]:
        first = max(0, len(self._free) - count)
        taken = self._free[first:]
        del self._free[first:]
        new = range(len(self._keys), len(self._keys) + count - len(taken))
        self._keys += [b""] * len(new)
        for column in (self._list, self._next, self._previous):
            column.extend(new)
        return taken + list(new)
