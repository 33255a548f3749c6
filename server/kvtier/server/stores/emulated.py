"""Host memory in place of a GPU."""

from collections.abc import Sequence

import numpy as np

from kvtier.server.stores.base import Bytes
from kvtier.server.stores.memory import available_memory
from kvtier.server.stores.packing import Piece


class EmulatedLane:
    """A `Lane` between two parts of host memory.

    Args:
        size: Bytes of staging memory.
    """

    def __init__(self, size: int) -> None:
        self.staging: Bytes = np.empty(size, np.uint8)

    def gather(self, arena: Bytes, pieces: Sequence[Piece]) -> None:
        """See `Lane`."""
        for _, _, start, packed, length in pieces:
            self.staging[packed : packed + length] = arena[start : start + length]

    def scatter(self, arena: Bytes, pieces: Sequence[Piece]) -> None:
        """See `Lane`."""
        for _, _, start, packed, length in pieces:
            arena[start : start + length] = self.staging[packed : packed + length]

    def move(self, pairs: Sequence[tuple[Bytes, Bytes]]) -> None:
        """See `Lane`."""
        for target, source in pairs:
            target[:] = source


class EmulatedDevice:
    """An `ArrayDevice` without a GPU, which pins nothing and shares nothing."""

    name = "emulated"

    def free_bytes(self) -> int:
        """See `ArrayDevice`."""
        return available_memory()

    def allocate(self, size: int) -> Bytes:
        """See `ArrayDevice`."""
        return np.empty(size, np.uint8)

    def open_lane(self, size: int) -> EmulatedLane:
        """See `ArrayDevice`."""
        return EmulatedLane(size)

    def pin(self, memory: Bytes) -> None:
        """See `ArrayDevice`."""

    def unpin(self, memory: Bytes) -> None:
        """See `ArrayDevice`."""

    def is_pinned(self, memory: Bytes) -> bool:  # noqa: ARG002 - the interface's
        """See `ArrayDevice`."""
        return False

    def ipc_handle(self, arena: Bytes) -> None:
        """See `ArrayDevice`."""

    def uuid(self) -> str:
        """See `ArrayDevice`."""
        return ""
