"""A GPU, through CuPy."""

import ctypes
import uuid
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from kvtier.server.stores.base import Bytes
from kvtier.server.stores.cuda_lane import CudaLane, address, load_kernel

# CUDA gives a smaller allocation a part of such a piece, and shares all of the piece over IPC.
_IPC_GRAIN = 2 << 20


class CudaDevice:
    """An `ArrayDevice` that is a GPU.

    Args:
        cupy: The CuPy package.
        index: The GPU's number.
    """

    def __init__(self, cupy: Any, index: int) -> None:
        self.name = f"cuda:{index}"
        self._cupy = cupy
        self._index = index
        self._kernel: Any = None

    def current(self) -> AbstractContextManager[object]:
        """Return a context in which this thread works on the device."""
        device: AbstractContextManager[object] = self._cupy.cuda.Device(self._index)
        return device

    def free_bytes(self) -> int:
        """See `ArrayDevice`."""
        free, _ = self._cupy.cuda.Device(self._index).mem_info
        return int(free)

    def allocate(self, size: int) -> Any:
        """See `ArrayDevice`."""
        whole = -(-size // _IPC_GRAIN) * _IPC_GRAIN
        # Not from CuPy's pool, which would keep the memory, and share it over IPC with what else
        # it holds.
        with self.current(), self._cupy.cuda.using_allocator(None):
            return self._cupy.empty(whole, np.uint8)[:size]

    def open_lane(self, size: int) -> CudaLane:
        """See `ArrayDevice`."""
        with self.current():
            if self._kernel is None:
                self._kernel = load_kernel(self._cupy)
            return CudaLane(self._cupy, self.current, self._kernel, self.allocate(size))

    def pin(self, memory: Bytes) -> None:
        """See `ArrayDevice`."""
        runtime = self._cupy.cuda.runtime
        with self.current():
            runtime.hostRegister(address(memory), memory.size, runtime.hostAllocPortable)

    def unpin(self, memory: Bytes) -> None:
        """See `ArrayDevice`."""
        with self.current():
            self._cupy.cuda.runtime.hostUnregister(address(memory))

    def is_pinned(self, memory: Bytes) -> bool:
        """See `ArrayDevice`."""
        runtime = self._cupy.cuda.runtime
        with self.current():
            kind = runtime.pointerGetAttributes(address(memory)).type
        return bool(kind == runtime.memoryTypeHost)

    def ipc_handle(self, arena: Any) -> bytes:
        """See `ArrayDevice`."""
        with self.current():
            return bytes(self._cupy.cuda.runtime.ipcGetMemHandle(address(arena)))

    def uuid(self) -> str:
        """See `ArrayDevice`."""
        return device_uuid(self._index, ctypes.CDLL("libcuda.so.1"))


def device_uuid(index: int, driver: Any) -> str:
    """Return a GPU's UUID as `nvidia-smi -L` tells it.

    CuPy cuts it off at its first zero byte, hence the driver itself.

    Args:
        index: The GPU's number.
        driver: The CUDA driver's library.

    Raises:
        RuntimeError: When the driver does not tell it.
    """
    device, raw = ctypes.c_int(), ctypes.create_string_buffer(16)
    code = driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), index)
    code = code or driver.cuDeviceGetUuid_v2(raw, device)
    if code:
        raise RuntimeError(f"the CUDA driver does not tell the UUID of cuda:{index}: error {code}")
    return f"GPU-{uuid.UUID(bytes=raw.raw)}"
