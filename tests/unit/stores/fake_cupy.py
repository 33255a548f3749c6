"""The part of CuPy that stores use, over NumPy, as strict as a GPU is.

Work that is given to a stream is done when somebody waits for the stream, and not before. Work
without a current device, and asynchronous copies from or to host memory that is not pinned, fail.
"""

import ctypes
import itertools
import threading
import types
import weakref
from typing import Any, Self

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
TO_DEVICE, TO_HOST, DEFAULT = 1, 2, 4


class CudaError(RuntimeError):
    """As CuPy's CUDARuntimeError."""


class DeviceArray(np.ndarray[tuple[int], np.dtype[np.uint8]]):
    """An array that tells its address as CuPy's do."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"data": (self.ctypes.data, False)}


class Ranges:
    """Ranges of addresses that live as long as an array, or until they are taken out."""

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}

    def add(self, array: Array) -> None:
        address = array.ctypes.data
        self.sizes[address] = array.size
        weakref.finalize(array, self.sizes.pop, address, None)

    def has(self, address: int, length: int) -> bool:
        return any(a <= address and address + length <= a + n for a, n in self.sizes.items())


class FakeCuda:
    """A GPU with 64 MiB free beside what copies need.

    Attributes:
        broken: What the GPU says when it is asked for work; empty while it works.
        pinned: Host memory that the GPU reaches.
        launches: Grids of the kernels that ran.
        copies: Number of asynchronous copies that were made.
    """

    def __init__(self) -> None:
        self.broken = ""
        self.pinned = Ranges()
        self.launches: list[tuple[int, int]] = []
        self.copies = 0
        self._arrays = Ranges()
        self._streams: dict[int, Stream] = {}
        self._numbers = itertools.count(1)
        self.local = threading.local()

    def empty(self, size: int, dtype: type) -> Array:
        assert self.local.device == 0
        array: Array = np.empty(size, dtype)
        self._arrays.add(array)
        return array.view(DeviceArray)

    def alloc_pinned_memory(self, size: int) -> Array:
        array = np.empty(size, np.int8)
        self.pinned.add(array)
        return array

    def host_register(self, address: int, size: int, flags: int) -> None:
        self.check()
        if address in self.pinned.sizes:
            raise CudaError("cudaErrorHostMemoryAlreadyRegistered")
        assert flags == 1
        self.pinned.sizes[address] = size

    def host_unregister(self, address: int) -> None:
        del self.pinned.sizes[address]

    def pointer_attributes(self, address: int) -> types.SimpleNamespace:
        return types.SimpleNamespace(type=1 if self.pinned.has(address, 1) else 0)

    def memcpy_async(self, target: int, source: int, length: int, kind: int, stream: int) -> None:
        self.check()
        sides = {
            TO_DEVICE: (self._arrays.has(target, length), self.pinned.has(source, length)),
            TO_HOST: (self.pinned.has(target, length), self._arrays.has(source, length)),
            DEFAULT: tuple(
                self._arrays.has(each, length) or self.pinned.has(each, length)
                for each in (target, source)
            ),
        }[kind]
        if not all(sides):
            raise CudaError(f"cudaErrorInvalidValue: {kind} {sides}")
        self.copies += 1
        self._streams[stream].work.append(lambda: ctypes.memmove(target, source, length))

    def ipc_handle(self, address: int) -> bytes:
        size = self._arrays.sizes[address]
        assert size % (2 << 20) == 0
        return address.to_bytes(8, "little") + size.to_bytes(56, "little")

    def add_stream(self, stream: "Stream") -> int:
        number = next(self._numbers)
        self._streams[number] = stream
        return number

    def check(self) -> None:
        assert self.local.device == 0
        if self.broken:
            raise CudaError(self.broken)


class Device:
    """Makes a GPU the thread's current one."""

    def __init__(self, cuda: FakeCuda, index: int) -> None:
        self._local = cuda.local
        self._index = index
        self._before: int | None = None
        self.mem_info = (64 << 20, 80 << 30)

    def __enter__(self) -> Self:
        self._before = getattr(self._local, "device", None)
        self._local.device = self._index
        return self

    def __exit__(self, *_: object) -> None:
        self._local.device = self._before


class Stream:
    """Work in order, done when somebody waits for it."""

    def __init__(self, cuda: FakeCuda, *, non_blocking: bool) -> None:
        assert non_blocking
        cuda.check()
        self._cuda = cuda
        self.ptr = cuda.add_stream(self)
        self.work: list[Any] = []

    def __enter__(self) -> Self:
        self._cuda.local.stream = self
        return self

    def __exit__(self, *_: object) -> None:
        del self._cuda.local.stream

    def synchronize(self) -> None:
        work, self.work = self.work, []
        self._cuda.check()
        for step in work:
            step()


class RawKernel:
    """Copies the pieces of a table, as the kernel of the lanes does."""

    def __init__(self, cuda: FakeCuda, code: str, name: str) -> None:
        assert f"void {name}(" in code
        self._cuda = cuda

    def compile(self) -> None:
        self._cuda.check()

    def __call__(self, grid: tuple[int, int], block: tuple[int], args: tuple[Array, ...]) -> None:
        self._cuda.check()
        assert 0 < block[0] <= 1024
        assert 0 < grid[1] <= 65535
        self._cuda.launches.append(grid)
        self._cuda.local.stream.work.append(lambda: self._run(grid[0], *args))

    @staticmethod
    def _run(count: int, source: Array, target: Array, table: Array) -> None:
        rows = table[: count * 24].view(np.int64).reshape(count, 3)
        for start, to, length in rows.tolist():
            assert start % 16 == to % 16
            target[to : to + length] = source[start : start + length]


def make_cupy() -> types.ModuleType:
    """Return a package like CuPy with one GPU; its attribute `fake` is the `FakeCuda`."""
    cuda = FakeCuda()
    runtime = types.SimpleNamespace(
        getDeviceCount=lambda: 1,
        hostAllocPortable=1,
        hostRegister=cuda.host_register,
        hostUnregister=cuda.host_unregister,
        ipcGetMemHandle=cuda.ipc_handle,
        memcpyAsync=cuda.memcpy_async,
        memcpyDefault=DEFAULT,
        memcpyDeviceToHost=TO_HOST,
        memcpyHostToDevice=TO_DEVICE,
        memoryTypeHost=1,
        pointerGetAttributes=cuda.pointer_attributes,
    )
    package: Any = types.ModuleType("cupy")
    package.fake = cuda
    package.empty = cuda.empty
    package.RawKernel = lambda code, name: RawKernel(cuda, code, name)
    package.cuda = types.SimpleNamespace(
        Device=lambda index: Device(cuda, index),
        Stream=lambda *, non_blocking: Stream(cuda, non_blocking=non_blocking),
        alloc_pinned_memory=cuda.alloc_pinned_memory,
        is_available=lambda: True,
        runtime=runtime,
        using_allocator=lambda allocator: Device(cuda, 0),
    )
    return package  # type: ignore[no-any-return]
