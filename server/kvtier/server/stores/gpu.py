"""GPU memory, or host memory standing in for it."""

from typing import Any

import numpy as np

from kvtier.server.stores.base import StoreError, span
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
    in_place = False

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

    def view(self, position: int, length: int) -> memoryview:
        """See `BlockStore`."""
        return memoryview(self.read(position, length))

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
