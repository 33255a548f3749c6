"""GPU memory, or host memory standing in for it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from kvtier.server.stores.base import Bytes, StoreError, span
from kvtier.server.stores.devices import ArrayDevice
from kvtier.v1.block_pb2 import MEDIUM_GPU
from kvtier.wire.sizes import format_size


class GpuStore:
    """A `BlockStore` in one array on a device.

    Args:
        device: Where the array is.
        capacity_bytes: Size of the arena.

    Raises:
        StoreError: When the device has too little memory.
    """

    medium: int = MEDIUM_GPU

    def __init__(self, device: ArrayDevice, capacity_bytes: int) -> None:
        self.device = device.name
        self.capacity_bytes = capacity_bytes
        self._device = device
        self._arena = _allocate(device, capacity_bytes)

    def write(self, position: int, data: bytes | memoryview) -> None:
        """See `BlockStore`."""
        source = np.frombuffer(data, np.uint8)
        where = span(position, source.size, self._arena.size)
        with self._device.current():
            self._device.copy_in(self._arena[where], source)

    def read(self, position: int, length: int) -> bytes:
        """See `BlockStore`."""
        where = span(position, length, self._arena.size)
        with self._device.current():
            data: bytes = self._arena[where].tobytes()
            return data

    def write_many(self, positions: Sequence[int], blocks: Sequence[Bytes]) -> None:
        """See `BlockStore`."""
        targets = self._ranges(positions, blocks)
        with self._device.current():
            for target, block in zip(targets, blocks, strict=True):
                self._device.copy_in(target, block)

    def read_into(self, positions: Sequence[int], blocks: Sequence[Bytes]) -> None:
        """See `BlockStore`."""
        sources = self._ranges(positions, blocks)
        with self._device.current():
            for source, block in zip(sources, blocks, strict=True):
                block[:] = np.frombuffer(source.tobytes(), np.uint8)

    def views(self, positions: Sequence[int], lengths: Sequence[int]) -> None:
        """See `BlockStore`."""

    def _ranges(self, positions: Sequence[int], blocks: Sequence[Bytes]) -> list[Any]:
        size = self._arena.size
        ranges = zip(positions, blocks, strict=True)
        return [self._arena[span(position, block.size, size)] for position, block in ranges]

    def close(self) -> None:
        """See `BlockStore`."""
        self._arena = np.empty(0, np.uint8)


def _allocate(device: ArrayDevice, size: int) -> Any:
    free = device.free_bytes()
    try:
        if size <= free:
            return device.allocate(size)
    except MemoryError:
        free = device.free_bytes()
    raise StoreError(
        f"{format_size(size)} are needed on {device.name} and {format_size(free)} are free; "
        "lower the tier's capacity, or stop what else uses that memory"
    )
