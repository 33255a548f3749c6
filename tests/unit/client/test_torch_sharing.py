"""A GPU tier of this host as a tensor, on a CuPy over NumPy."""

import contextlib
import sys
import types
from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch", reason="torch is not installed; see the group torch-cpu")

from kvtier.client.torch import map_gpu_tier  # noqa: E402 - needs torch

HANDLE, UUID = b"h" * 64, "GPU-01000203-0405-0607-0809-0a0b0c0d0e00"


@pytest.fixture
def tier(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The memory of a tier, which CUDA maps by its handle.

    `open` names who has it, and `awaited` who had it each time that the GPU was waited for.
    """
    memory = types.SimpleNamespace(data=np.arange(100, dtype=np.uint8), open=[], awaited=[])

    def open_handle(handle: bytes) -> int:
        assert handle == HANDLE
        memory.open.append(handle)
        return 4096

    def close_handle(address: int) -> None:
        assert address == 4096
        memory.open.pop()

    cupy: Any = types.ModuleType("cupy")
    cupy.ndarray = lambda shape, dtype, pointer: pointer[: shape[0]].view(dtype)
    cupy.cuda = types.SimpleNamespace(
        Device=lambda index: contextlib.nullcontext(),
        MemoryPointer=lambda memory, offset: memory[offset:],
        UnownedMemory=lambda address, size, owner, device_id: memory.data[:size],
        runtime=types.SimpleNamespace(ipcOpenMemHandle=open_handle, ipcCloseMemHandle=close_handle),
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(
        torch.cuda, "synchronize", lambda index: memory.awaited.append((index, *memory.open))
    )
    uuids = ["ffffffff-0405-0607-0809-0a0b0c0d0e00", UUID.removeprefix("GPU-")]
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda index: types.SimpleNamespace(uuid=uuids[index])
    )
    return memory


def test_the_tier_s_memory_is_a_tensor_while_it_is_mapped(tier: Any) -> None:
    """What is written through the tensor is in the tier."""
    with map_gpu_tier(HANDLE, UUID, 64) as tensor:
        assert tier.open == [HANDLE]
        assert tensor.dtype == torch.uint8
        assert tensor.tolist() == list(range(64))
        tensor[3] = 77

    assert tier.data[3] == 77
    assert tier.open == []
    assert tier.awaited == [(1, HANDLE)]


def test_the_mapping_ends_with_an_error_of_its_user_too(tier: Any) -> None:
    """Nothing stays mapped, and no work that its user began runs into memory that is not."""
    with pytest.raises(KeyError), map_gpu_tier(HANDLE, UUID, 64):
        raise KeyError

    assert tier.open == []
    assert tier.awaited == [(1, HANDLE)]


def test_a_tier_on_a_gpu_that_is_not_seen_is_refused(tier: Any) -> None:
    """Naming those that are."""
    with (
        pytest.raises(ValueError, match=rf"on GPU-00, which .* sees GPU-f\S+, {UUID}"),
        map_gpu_tier(HANDLE, "GPU-00", 64),
    ):
        pass

    assert tier.open == []
