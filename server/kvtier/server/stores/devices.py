"""The devices that can hold a GPU tier: a GPU through CuPy, or host memory in its place."""

import contextlib
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from kvtier.server.stores.base import StoreError
from kvtier.server.stores.memory import available_memory


class ArrayDevice(Protocol):
    """What differs between NumPy and CuPy for a flat array of bytes.

    Attributes:
        name: `cuda:N` or `emulated`.
    """

    name: str

    def current(self) -> AbstractContextManager[object]:
        """Return a context in which this thread works on the device."""

    def free_bytes(self) -> int:
        """Return the bytes that could be allocated now."""

    def allocate(self, size: int) -> Any:
        """Return an array of bytes, of this size and undefined contents.

        Raises:
            MemoryError: When there is too little memory.
        """

    def copy_in(self, target: Any, source: np.ndarray[Any, Any]) -> None:
        """Copy bytes in host memory to a part of an array, and wait for it."""


class EmulatedDevice:
    """Host memory in place of a GPU."""

    name = "emulated"

    def current(self) -> AbstractContextManager[object]:
        """See `ArrayDevice`."""
        return contextlib.nullcontext()

    def free_bytes(self) -> int:
        """See `ArrayDevice`."""
        return available_memory()

    def allocate(self, size: int) -> Any:
        """See `ArrayDevice`."""
        return np.empty(size, np.uint8)

    def copy_in(self, target: Any, source: np.ndarray[Any, Any]) -> None:
        """See `ArrayDevice`."""
        target[:] = source


class CudaDevice:
    """A GPU.

    Args:
        cupy: The CuPy package.
        index: The GPU's number.
    """

    def __init__(self, cupy: Any, index: int) -> None:
        self.name = f"cuda:{index}"
        self._cupy = cupy
        self._index = index

    def current(self) -> AbstractContextManager[object]:
        """See `ArrayDevice`."""
        device: AbstractContextManager[object] = self._cupy.cuda.Device(self._index)
        return device

    def free_bytes(self) -> int:
        """See `ArrayDevice`."""
        free, _ = self._cupy.cuda.Device(self._index).mem_info
        return int(free)

    def allocate(self, size: int) -> Any:
        """See `ArrayDevice`."""
        # Not from CuPy's pool, which would keep the memory after the array is gone.
        with self.current(), self._cupy.cuda.using_allocator(None):
            return self._cupy.empty(size, np.uint8)

    def copy_in(self, target: Any, source: np.ndarray[Any, Any]) -> None:
        """See `ArrayDevice`."""
        target.set(source)
        self._cupy.cuda.get_current_stream().synchronize()


def find_device(name: str) -> ArrayDevice:
    """Return a device by its configured name: `auto`, `emulated` or `cuda:N`.

    `auto` is `cuda:0` where CuPy finds a usable GPU, and `emulated` elsewhere.

    Raises:
        StoreError: When a GPU is named that cannot be used.
    """
    if name == "emulated":
        return EmulatedDevice()
    cupy = _import_cupy()
    if name == "auto":
        usable = cupy is not None and cupy.cuda.is_available()
        return CudaDevice(cupy, 0) if usable else EmulatedDevice()
    index = int(name.removeprefix("cuda:"))
    if cupy is None:
        raise StoreError(
            f"{name} needs the package cupy, which is not installed; install kvtier[cuda12] or "
            "kvtier[cuda13], or set the tier's device to emulated"
        )
    count = _device_count(name, cupy)
    if index >= count:
        raise StoreError(
            f"{name} does not exist: there are {count} usable GPUs, numbered from 0; give one of "
            "their numbers, or set the tier's device to auto or emulated"
        )
    return CudaDevice(cupy, index)


def _import_cupy() -> Any:
    try:
        import cupy  # noqa: PLC0415 - takes long, and is not needed without a GPU
    except ImportError:
        return None
    return cupy


def _device_count(name: str, cupy: Any) -> int:
    try:
        return int(cupy.cuda.runtime.getDeviceCount())
    except RuntimeError as error:
        raise StoreError(
            f"{name} cannot be used: {error}; check the NVIDIA driver and that the container is "
            "given a GPU, or set the tier's device to emulated"
        ) from error
