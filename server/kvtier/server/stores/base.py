"""What every store of bytes does."""

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

Bytes: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]


class StoreError(Exception):
    """A store cannot be opened; the message says which tier, why, and what to do."""


class Store(Protocol):
    """What holds the bytes of a tier.

    Attributes:
        medium: The kind of storage, a `kvtier.v1` `Medium`.
        device: What really holds the bytes, such as `shared-memory` or `file-system`.
        capacity_bytes: Bytes for blocks, spare room too; 0 is allowed.
    """

    medium: int
    device: str
    capacity_bytes: int

    def close(self) -> None:
        """Give everything back; closing again does nothing."""


class BlockStore(Store, Protocol):
    """One flat arena of bytes.

    Copies of ranges that do not overlap may run in several threads at one time. What a range holds
    before it was first written is not defined.

    Attributes:
        medium: The kind of storage, a `kvtier.v1` `Medium`.
        device: What really holds the bytes: `shared-memory`, `cuda:N` or `emulated`.
        capacity_bytes: Size of the arena; 0 is allowed.
        inline_bytes: Up to so many bytes a copy costs less than a turn of a thread, and waits for
            nothing.
    """

    medium: int
    device: str
    capacity_bytes: int
    inline_bytes: int

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

    def write_many(self, positions: Sequence[int], blocks: Sequence[Bytes]) -> None:
        """Copy flat arrays of bytes to a position each, all in one step where the device can.

        Raises:
            ValueError: When one does not lie within the arena, or the store is closed; nothing
                was written.
            OSError, RuntimeError: When the device fails; what the ranges hold is not defined.
        """

    def read_into(self, positions: Sequence[int], blocks: Sequence[Bytes]) -> None:
        """Fill flat arrays with the bytes from a position each on.

        Raises:
            ValueError: When one does not lie within the arena, or the store is closed.
            OSError, RuntimeError: When the device fails; what the arrays hold is not defined.
        """

    def views(self, positions: Sequence[int], lengths: Sequence[int]) -> list[Bytes] | None:
        """Return the arena's own bytes as flat arrays; None where the processor cannot reach them.

        Raises:
            ValueError: When a range does not lie within the arena, or the store is closed.
        """

    def close(self) -> None:
        """Give the memory back and leave nothing behind; closing again does nothing.

        No copy may be under way.
        """


def look(store: BlockStore, position: int, length: int) -> memoryview:
    """Return the bytes from a position on, to be read while nothing writes there.

    They are the store's own where the processor reaches them, and else a copy.

    Raises:
        ValueError: When they do not lie within the arena, or the store is closed.
        OSError, RuntimeError: When the device fails.
    """
    there = store.views([position], [length])
    if there is not None:
        return there[0].data.toreadonly()
    span(position, length, store.capacity_bytes)
    block: Bytes = np.empty(length, np.uint8)
    store.read_into([position], [block])
    return block.data.toreadonly()


def span(position: int, length: int, size: int) -> slice:
    """Return the range of bytes in an arena of a size.

    Raises:
        ValueError: When it does not lie within the arena.
    """
    end = position + length
    if not 0 <= position <= end <= size:
        raise ValueError(f"bytes {position} to {end} are not within the store's {size} bytes")
    return slice(position, end)
