"""What callers were told, and so what may be found and what must not."""

from collections import Counter

from .blocks import EVERY_KEY, NAMESPACES, Key, payload


class Truth:
    """What the walk knows of every block, over all lives of the node.

    A block that was deleted everywhere, with an answer, has other bytes from then on: a copy of
    before that shows up again is met by its bytes.

    Args:
        deletes_last: Whether what was deleted stays away; else it has the same bytes again.

    Attributes:
        offered: Blocks that were offered since they were deleted.
        unsettled: Blocks that calls may still be at whose callers have left.
    """

    def __init__(self, *, deletes_last: bool = True) -> None:
        self._deletes_last = deletes_last
        self.offered: set[Key] = set()
        self.unsettled: set[Key] = set()
        self._versions: Counter[Key] = Counter()

    def version(self, key: Key) -> int:
        """Which bytes a block has now."""
        return self._versions[key]

    def payload(self, key: Key) -> bytes:
        """The bytes that a block has now."""
        return payload(key, self._versions[key])

    def gone(self, key: Key) -> None:
        """Note that a block was deleted everywhere, and that this was answered."""
        if self._deletes_last and key not in self.unsettled:
            self._versions[key] += 1
            self.offered.discard(key)

    def gone_with(self, namespace: bytes) -> None:
        """Note the same of all blocks of a namespace."""
        for key in EVERY_KEY:
            if key.namespace == namespace:
                self.gone(key)

    def check(self, key: Key, since: int, data: bytes) -> None:
        """Check what was read of a block, in a call that began when it had a certain version."""
        right = [payload(key, version) for version in range(since, self._versions[key] + 1)]
        assert data in right, f"{_name(key)} has bytes of another block or of before a delete"


def _name(key: Key) -> str:
    return f"{key.block_hash[:4].hex()} of group {key.group} of {len(NAMESPACES)} namespaces"
