"""A GPU tier of this host as a tensor, through CUDA IPC."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def map_gpu_tier(ipc_handle: bytes, device_uuid: str, size_bytes: int) -> Iterator[torch.Tensor]:
    """Map the memory of a GPU tier for the time of a block, given what `MapTier` answers.

    The tensor and everything that shares its memory must not be used afterwards. A process cannot
    map a tier of its own. It needs CuPy.

    Args:
        ipc_handle: The handle, 64 bytes.
        device_uuid: The GPU's UUID, as `nvidia-smi -L` tells it.
        size_bytes: Bytes of the tier; slot 0 is at the beginning.

    Yields:
        The tier's bytes, of shape (size_bytes,).

    Raises:
        ValueError: When this process does not see that GPU.
        RuntimeError: When CUDA cannot map the memory.
    """
    import cupy  # noqa: PLC0415 - payloads can be moved without it

    index = _index_of(device_uuid)
    with cupy.cuda.Device(index):
        address = cupy.cuda.runtime.ipcOpenMemHandle(ipc_handle)
    try:
        memory = cupy.cuda.UnownedMemory(address, size_bytes, owner=None, device_id=index)
        pointer = cupy.cuda.MemoryPointer(memory, 0)
        with cupy.cuda.Device(index):
            yield torch.from_dlpack(cupy.ndarray((size_bytes,), "uint8", pointer))
    finally:
        try:
            # What the body began may still run, also when it failed.
            torch.cuda.synchronize(index)
        finally:
            with cupy.cuda.Device(index):
                cupy.cuda.runtime.ipcCloseMemHandle(address)


def _index_of(device_uuid: str) -> int:
    seen = [
        f"GPU-{torch.cuda.get_device_properties(index).uuid}"
        for index in range(torch.cuda.device_count())
    ]
    if device_uuid not in seen:
        raise ValueError(
            f"the tier is on {device_uuid}, which this process does not see; it sees "
            f"{', '.join(seen) or 'no GPU'}"
        )
    return seen.index(device_uuid)
