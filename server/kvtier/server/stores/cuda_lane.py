"""Copies between a GPU and the host on a stream of their own."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from kvtier.server.stores.packing import Piece

# One row a piece: where it begins in the source and in the target, and its length. Source and
# target are equal modulo 16, so all but the ends goes by 16 bytes at a time.
KERNEL = """
extern "C" __global__ void kvtier_copy_pieces(
    const unsigned char* source, unsigned char* target, const long long* rows)
{
    const long long* row = rows + 3LL * blockIdx.x;
    const unsigned char* from = source + row[0];
    unsigned char* to = target + row[1];
    const long long length = row[2];
    const long long first = (long long)blockIdx.y * blockDim.x + threadIdx.x;
    const long long step = (long long)gridDim.y * blockDim.x;
    long long head = (long long)((16 - ((unsigned long long)from & 15)) & 15);
    head = head < length ? head : length;
    const long long words = (length - head) >> 4;
    const uint4* from_words = (const uint4*)(from + head);
    uint4* to_words = (uint4*)(to + head);
    for (long long i = first; i < head; i += step) to[i] = from[i];
    for (long long i = first; i < words; i += step) to_words[i] = from_words[i];
    for (long long i = head + (words << 4) + first; i < length; i += step) to[i] = from[i];
}
"""
THREADS = 256
# Enough to keep a GPU busy with one piece, few enough to leave its engine the rest with many.
_MOST_GROUPS = 32


def load_kernel(cupy: Any) -> Any:
    """Compile the kernel for the current device.

    Raises:
        RuntimeError: When it cannot be compiled.
    """
    # CuPy would keep what it compiled in the home directory, which a container cannot write to.
    os.environ.setdefault("CUPY_CACHE_IN_MEMORY", "1")
    kernel = cupy.RawKernel(KERNEL, "kvtier_copy_pieces")
    try:
        kernel.compile()
    except Exception as error:
        raise RuntimeError(
            f"the copy kernel cannot be compiled: {error} (NVRTC comes with kvtier[cuda12] and "
            "kvtier[cuda13])"
        ) from error
    return kernel


def address(array: Any) -> int:
    """Return where an array of NumPy or CuPy begins in memory."""
    interface = getattr(array, "__cuda_array_interface__", None) or array.__array_interface__
    return int(interface["data"][0])


class CudaLane:
    """A `Lane` with a non-blocking stream, pinned staging memory, and its mirror on the GPU.

    The first part of the staging memory is the table of the pieces.

    Args:
        cupy: The CuPy package.
        current: Makes the device the thread's current one.
        kernel: What `load_kernel` returned.
        mirror: The staging memory's counterpart on the device.
    """

    def __init__(
        self,
        cupy: Any,
        current: Callable[[], AbstractContextManager[object]],
        kernel: Any,
        mirror: Any,
    ) -> None:
        self._runtime = cupy.cuda.runtime
        self._current = current
        self._kernel = kernel
        self._mirror = mirror
        self._stream = cupy.cuda.Stream(non_blocking=True)
        size = int(mirror.size)
        self.staging = np.frombuffer(cupy.cuda.alloc_pinned_memory(size), np.uint8, size)
        self._host = address(self.staging)
        self._there = address(mirror)

    def gather(self, arena: Any, pieces: Sequence[Piece]) -> None:
        """See `Lane`."""
        rows = [(piece.start, piece.packed, piece.length) for piece in pieces]
        begin, end = _extent(pieces)
        with self._working():
            self._launch(arena, self._mirror, rows)
            kind = self._runtime.memcpyDeviceToHost
            self._copy(self._host + begin, self._there + begin, end - begin, kind)

    def scatter(self, arena: Any, pieces: Sequence[Piece]) -> None:
        """See `Lane`."""
        rows = [(piece.packed, piece.start, piece.length) for piece in pieces]
        begin, end = _extent(pieces)
        with self._working():
            kind = self._runtime.memcpyHostToDevice
            self._copy(self._there + begin, self._host + begin, end - begin, kind)
            self._launch(self._mirror, arena, rows)

    def move(self, pairs: Sequence[tuple[Any, Any]]) -> None:
        """See `Lane`."""
        with self._working():
            for target, source in pairs:
                kind = self._runtime.memcpyDefault
                self._copy(address(target), address(source), int(source.size), kind)

    def _launch(self, source: Any, target: Any, rows: Sequence[tuple[int, int, int]]) -> None:
        table = np.array(rows, np.int64)
        self.staging[: table.nbytes] = table.view(np.uint8).ravel()
        self._copy(self._there, self._host, table.nbytes, self._runtime.memcpyHostToDevice)
        words = max(length for _, _, length in rows) // 16
        groups = min(_MOST_GROUPS, words // THREADS + 1)
        self._kernel((len(rows), groups), (THREADS,), (source, target, self._mirror))

    def _copy(self, target: int, source: int, length: int, kind: int) -> None:
        self._runtime.memcpyAsync(target, source, length, kind, self._stream.ptr)

    @contextmanager
    def _working(self) -> Iterator[None]:
        """Work on the stream, and leave only when the device is done with the staging memory."""
        with self._current(), self._stream:
            try:
                yield
            finally:
                self._stream.synchronize()


def _extent(pieces: Sequence[Piece]) -> tuple[int, int]:
    last = pieces[-1]
    return pieces[0].packed, last.packed + last.length
