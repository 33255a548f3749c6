"""What every store of bytes does."""

from typing import Protocol


class StoreError(Exception):
    """A store cannot be opened; the message says which tier, why, and what to do."""


class BlockStore(Protocol):
    """One flat arena of bytes.

    Copies of ranges that do not overlap may run in several threads at one time. What a range holds
    before it was first written is not defined.

    Attributes:
        medium: The kind of storage, a `kvtier.v1` `Medium`.
        device: What really holds the bytes: `shared-memory`, `cuda:N` or `emulated`.
        capacity_bytes: Size of the arena; 0 is allowed.
        in_place: Whether `view` shows the memory itself, so that it takes none.
    """

    medium: int
    device: str
    capacity_bytes: int
    in_place: bool

    def write(self, position: int, data: bytes | memoryview) -> None:
        """Copy bytes to a position.

        Raises:
            ValueError: When they do not lie within the arena, or the store is closed.
        """

    def read(self, position: int, length: int) -> bytes:
        """Return a copy of the bytes from a position on.

        Raises:
            ValueError: When they do not lie within the arena, or the store is closed.
        """

    def view(self, position: int, length: int) -> memoryview:
        """Return the bytes from a position on, to be read while nothing writes there.

        Raises:
            ValueError: When they do not lie within the arena, or the store is closed.
        """

    def close(self) -> None:
        """Give the memory back and leave nothing behind; closing again does nothing.

        No copy may be under way.
        """


def span(position: int, length: int, size: int) -> slice:
    """Return the range of bytes in an arena of a size.

    Raises:
        ValueError: When it does not lie within the arena.
    """
    end = position + length
    if not 0 <= position <= end <= size:
        raise ValueError(f"bytes {position} to {end} are not within the store's {size} bytes")
    return slice(position, end)
