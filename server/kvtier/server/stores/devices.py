"""What a GPU tier needs of a device, and which device a configuration names."""

from collections.abc import Sequence
from typing import Any, Protocol

from kvtier.server.stores.base import Bytes, StoreError
from kvtier.server.stores.cuda import CudaDevice
from kvtier.server.stores.emulated import EmulatedDevice
from kvtier.server.stores.packing import Piece


class Lane(Protocol):
    """A way between an arena and the host, for one copy at a time; each call waits for its end.

    Attributes:
        staging: Host memory that pieces cross through.
    """

    staging: Bytes

    def gather(self, arena: Any, pieces: Sequence[Piece]) -> None:
        """Bring pieces of an arena to their places in the staging memory.

        Raises:
            RuntimeError: When the device fails.
        """

    def scatter(self, arena: Any, pieces: Sequence[Piece]) -> None:
        """Bring pieces from their places in the staging memory to the arena.

        Raises:
            RuntimeError: When the device fails.
        """

    def move(self, pairs: Sequence[tuple[Any, Any]]) -> None:
        """Fill arrays from others of equal length, each on a device or in pinned host memory.

        Args:
            pairs: A target and a source each.

        Raises:
            RuntimeError: When the device fails.
        """


class ArrayDevice(Protocol):
    """What differs between a GPU and host memory in its place.

    Attributes:
        name: `cuda:N` or `emulated`.
    """

    name: str

    def free_bytes(self) -> int:
        """Return the bytes that could be allocated now."""

    def allocate(self, size: int) -> Any:
        """Return an array of bytes, of this size and undefined contents.

        Raises:
            MemoryError: When there is too little memory.
        """

    def open_lane(self, size: int) -> Lane:
        """Return a lane with so many bytes of staging memory.

        Raises:
            MemoryError: When there is too little memory on the device.
            RuntimeError: When the device fails, or the host has too little memory to pin.
        """

    def pin(self, memory: Bytes) -> None:
        """Fix host memory in place, so that the device can reach it.

        Raises:
            RuntimeError: When it cannot be fixed.
        """

    def unpin(self, memory: Bytes) -> None:
        """Let go of memory that `pin` fixed."""

    def is_pinned(self, memory: Bytes) -> bool:
        """Tell whether the device can reach this host memory."""

    def ipc_handle(self, arena: Any) -> bytes | None:
        """Return the CUDA IPC handle of an array from `allocate`; None where there is none."""

    def uuid(self) -> str:
        """Return the device's UUID, such as `GPU-` and 36 characters; empty where it has none.

        Raises:
            OSError, RuntimeError: When the driver is not there, or does not tell it.
        """


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
