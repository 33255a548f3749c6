"""Host memory: one shared-memory file per tier."""

import errno
import mmap
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from kvtier.server.stores.base import Bytes, StoreError, span
from kvtier.server.stores.shared_file import allocate, create, file_name, remove
from kvtier.v1.block_pb2 import MEDIUM_CPU
from kvtier.wire.sizes import format_size

# Linux 5.14; the mmap module does not name it yet.
_MADV_POPULATE_WRITE = 23
# A signal is handled between two pieces.
_PIECE = 256 << 20


class HostStore:
    """A `BlockStore` in a shared-memory file, whose pages are all there from the start.

    Opening takes about a second for each GiB, for the kernel to clear the memory.

    Args:
        directory: Where the file is, on a file system in memory.
        node_id: The node, for the name of the file.
        tier: The tier, for the name of the file.
        capacity_bytes: Size of the arena.

    Raises:
        StoreError: When another process has the tier open, or there is too little memory.
    """

    medium: int = MEDIUM_CPU
    device = "shared-memory"
    inline_bytes: int = 256 << 10

    def __init__(self, directory: Path, node_id: str, tier: str, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self.path = directory / file_name(node_id, tier)
        self._descriptor: int | None = create(self.path)
        try:
            allocate(self._descriptor, capacity_bytes, directory)
            self._arena = _map(self._descriptor, capacity_bytes)
        except BaseException:
            self.close()
            raise

    def write(self, position: int, data: bytes | memoryview) -> None:
        """See `BlockStore`."""
        source = np.frombuffer(data, np.uint8)
        # Through NumPy, which lets other threads run during the copy; a memoryview does not.
        self._arena[span(position, source.size, self._arena.size)] = source

    def read(self, position: int, length: int) -> bytes:
        """See `BlockStore`."""
        span(position, length, self._arena.size)
        if self._descriptor is None:
            return b""
        # Through the file, which makes the bytes object and lets other threads run meanwhile.
        return os.pread(self._descriptor, length, position)

    def write_many(self, positions: Sequence[int], blocks: Sequence[Bytes]) -> None:
        """See `BlockStore`."""
        for target, block in zip(
            self.views(positions, list(map(len, blocks))), blocks, strict=True
        ):
            target[:] = block

    def read_into(self, positions: Sequence[int], blocks: Sequence[Bytes]) -> None:
        """See `BlockStore`."""
        for source, block in zip(
            self.views(positions, list(map(len, blocks))), blocks, strict=True
        ):
            block[:] = source

    def views(self, positions: Sequence[int], lengths: Sequence[int]) -> list[Bytes]:
        """See `BlockStore`."""
        size = self._arena.size
        ranges = zip(positions, lengths, strict=True)
        return [self._arena[span(position, length, size)] for position, length in ranges]

    def close(self) -> None:
        """See `BlockStore`."""
        descriptor, self._descriptor = self._descriptor, None
        self._arena = np.empty(0, np.uint8)
        if descriptor is not None:
            remove(descriptor, self.path)


def _map(descriptor: int, size: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """Map a file with all of its pages; the mapping ends with the last use of the array."""
    if not size:
        return np.empty(0, np.uint8)
    try:
        mapping = mmap.mmap(descriptor, size)
        _populate(mapping, size)
    except OSError as error:
        raise StoreError(
            f"{format_size(size)} of shared memory cannot be mapped: {error.strerror}; raise the "
            "process's limit of address space, or lower the tier's capacity"
        ) from error
    return np.frombuffer(mapping, np.uint8)


def _populate(mapping: mmap.mmap, size: int) -> None:
    try:
        for start in range(0, size, _PIECE):
            mapping.madvise(_MADV_POPULATE_WRITE, start, min(_PIECE, size - start))
    except OSError as error:
        # An older kernel: pages are mapped when they are first used.
        if error.errno != errno.EINVAL:
            raise
