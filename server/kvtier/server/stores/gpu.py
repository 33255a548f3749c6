"""GPU memory, or host memory standing in for it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

import numpy as np

from kvtier.server.stores.base import Bytes, StoreError, span
from kvtier.server.stores.devices import ArrayDevice, Lane
from kvtier.server.stores.packing import Piece, pack
from kvtier.v1.block_pb2 import MEDIUM_GPU
from kvtier.wire.sizes import format_size

# Copies that cross at one time; more wait for one of them.
_LANES = 4
LANE_BYTES = 8 << 20
# The beginning of a lane's staging memory, which is left to the lane: three numbers for each piece.
_MOST_PIECES = 2048
_TABLE_BYTES = _MOST_PIECES * 3 * 8
# From here on a block of pinned memory is copied by itself. An estimate: a copy of its own takes a
# GPU some microseconds to begin, as long as the processor needs for so many bytes.
_ALONE_BYTES = 128 << 10


class GpuStore:
    """A `BlockStore` in one array on a device.

    Many blocks cross at once: they are gathered side by side on the device and cross in one copy
    through pinned memory, on a stream of their own. Large blocks of host memory that is pinned
    itself cross by themselves, past the staging memory.

    Args:
        device: Where the array is.
        capacity_bytes: Size of the arena.

    Raises:
        StoreError: When the device has too little memory, or does not work.
    """

    medium: int = MEDIUM_GPU
    inline_bytes: int = 0

    def __init__(self, device: ArrayDevice, capacity_bytes: int) -> None:
        self.device = device.name
        self.capacity_bytes = capacity_bytes
        self._device = device
        self._arena = _allocate(device, capacity_bytes)
        self._lanes = _open_lanes(device)

    def write(self, position: int, data: bytes | memoryview) -> None:
        """See `BlockStore`."""
        self.write_many([position], [np.frombuffer(data, np.uint8)])

    def read(self, position: int, length: int) -> bytes:
        """See `BlockStore`."""
        block: Bytes = np.empty(span(position, length, self._arena.size).stop - position, np.uint8)
        self.read_into([position], [block])
        return block.tobytes()

    def write_many(self, positions: Sequence[int], blocks: Sequence[Bytes]) -> None:
        """See `BlockStore`."""
        self._check(positions, blocks)
        alone, packed = self._part(blocks)
        if not alone and not packed:
            return
        with self._lane() as lane:
            lane.move([(self._range(positions[i], blocks[i].size), blocks[i]) for i in alone])
            for pieces in _batches(packed, positions, blocks):
                for block, offset, _, place, length in pieces:
                    lane.staging[place : place + length] = blocks[block][offset : offset + length]
                lane.scatter(self._arena, pieces)

    def read_into(self, positions: Sequence[int], blocks: Sequence[Bytes]) -> None:
        """See `BlockStore`."""
        self._check(positions, blocks)
        alone, packed = self._part(blocks)
        if not alone and not packed:
            return
        with self._lane() as lane:
            lane.move([(blocks[i], self._range(positions[i], blocks[i].size)) for i in alone])
            for pieces in _batches(packed, positions, blocks):
                lane.gather(self._arena, pieces)
                for block, offset, _, place, length in pieces:
                    blocks[block][offset : offset + length] = lane.staging[place : place + length]

    def views(self, positions: Sequence[int], lengths: Sequence[int]) -> None:
        """See `BlockStore`."""

    def is_near(self, source: "GpuStore") -> bool:
        """Tell whether `copy_from` takes from another store: both are on GPUs, or both emulated."""
        return type(self._device) is type(source._device)  # noqa: SLF001 - the same class

    def copy_from(
        self,
        source: "GpuStore",
        source_positions: Sequence[int],
        positions: Sequence[int],
        lengths: Sequence[int],
    ) -> None:
        """Copy ranges from another store of this kind without a way over the host.

        Raises:
            ValueError: When a range does not lie within its store, or a store is closed.
            RuntimeError: When a device fails.
        """
        pairs = [
            (self._range(to, length), source._range(start, length))  # noqa: SLF001 - the same class
            for start, to, length in zip(source_positions, positions, lengths, strict=True)
        ]
        if any(lengths):
            with self._lane() as lane:
                lane.move(pairs)

    def pin(self, memory: Bytes) -> None:
        """Fix host memory in place, so that blocks in it cross without staging.

        Raises:
            RuntimeError: When it cannot be fixed.
        """
        self._device.pin(memory)

    def unpin(self, memory: Bytes) -> None:
        """Let go of memory that `pin` fixed."""
        self._device.unpin(memory)

    def ipc_handle(self) -> bytes | None:
        """Return the CUDA IPC handle with which a process of this host maps the arena, 64 bytes.

        None where the store is emulated, empty or closed.

        Raises:
            RuntimeError: When the device does not share memory between processes.
        """
        return self._device.ipc_handle(self._arena) if self._arena.size else None

    @property
    def device_uuid(self) -> str:
        """The UUID of the GPU that the handle is for, as `nvidia-smi -L` tells it; "" without one.

        Raises:
            OSError, RuntimeError: When the driver is not there, or does not tell it.
        """
        return self._device.uuid()

    def close(self) -> None:
        """See `BlockStore`."""
        self._arena = np.empty(0, np.uint8)
        self._lanes = SimpleQueue()

    def _check(self, positions: Sequence[int], blocks: Sequence[Bytes]) -> None:
        for position, block in zip(positions, blocks, strict=True):
            span(position, block.size, self._arena.size)

    def _part(self, blocks: Sequence[Bytes]) -> tuple[list[int], list[int]]:
        """Return the numbers of the blocks that cross by themselves, and of those that do not."""
        alone = [
            i
            for i, block in enumerate(blocks)
            if block.size >= _ALONE_BYTES and self._device.is_pinned(block)
        ]
        apart = set(alone)
        return alone, [i for i, block in enumerate(blocks) if block.size and i not in apart]

    def _range(self, position: int, length: int) -> Any:
        return self._arena[span(position, length, self._arena.size)]

    @contextmanager
    def _lane(self) -> Iterator[Lane]:
        lane = self._lanes.get()
        try:
            yield lane
        finally:
            self._lanes.put(lane)


def _batches(
    numbers: Sequence[int], positions: Sequence[int], blocks: Sequence[Bytes]
) -> Iterator[list[Piece]]:
    ranges = ((i, positions[i], blocks[i].size) for i in numbers)
    return pack(ranges, begin=_TABLE_BYTES, end=LANE_BYTES, most=_MOST_PIECES)


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


def _open_lanes(device: ArrayDevice) -> "SimpleQueue[Lane]":
    lanes: SimpleQueue[Lane] = SimpleQueue()
    try:
        for _ in range(_LANES):
            lanes.put(device.open_lane(LANE_BYTES))
    except (MemoryError, RuntimeError) as error:
        raise StoreError(
            f"{device.name} cannot be made ready for copies: {error}; beside the tier's capacity "
            f"{format_size(_LANES * LANE_BYTES)} are needed there and as much of host memory"
        ) from error
    return lanes
