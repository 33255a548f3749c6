"""Merging the streams of a primary and its secondaries, without I/O.

Order within a source is kept; none is promised between sources, but that a turn starts with the
primary.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class SourceBuffer(Generic[T]):
    """What one source delivered and nobody took yet, bounded by its size.

    A buffer that is abandoned drops everything and takes nothing in until somebody takes from it
    again; what comes after that has to start over.

    Args:
        limit: Size at which it is full. What is larger is let in alone.
    """

    def __init__(self, limit: int) -> None:
        self.abandoned = False
        self._limit = limit
        self._items: deque[tuple[T, int]] = deque()
        self._size = 0

    def __len__(self) -> int:
        return len(self._items)

    @property
    def full(self) -> bool:
        """Whether the next item has to wait."""
        return self._size >= self._limit

    def put(self, item: T, size: int) -> None:
        """Add an item at the end."""
        self._items.append((item, size))
        self._size += size

    def pop(self) -> T:
        """Remove and return the oldest item."""
        item, size = self._items.popleft()
        self._size -= size
        return item

    def abandon(self) -> None:
        """Drop everything: nobody takes."""
        self._items.clear()
        self._size = 0
        self.abandoned = True


def merged(sources: Sequence[SourceBuffer[T]], quota: int | None = None) -> Iterator[T]:
    """Yield all that the primary has delivered by now, then of each secondary in order.

    With a quota neither starves the other. An item leaves its buffer when it is yielded, so that a
    turn which is given up loses nothing.

    Args:
        sources: The primary's buffer, then the secondaries'.
        quota: Most items of one secondary; None means all.
    """
    for place, source in enumerate(sources):
        count = len(source)
        if place and quota is not None:
            count = min(count, quota)
        while count and source:
            yield source.pop()
            count -= 1
