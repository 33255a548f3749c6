"""An engine's tensors, CuPy and a GPU tier share memory on a real GPU."""

import subprocess
import sys
from typing import Any

import pytest

from .conftest import OpenGpu, cannot_run

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

from kvtier.client.torch import PagedKV, buffers  # noqa: E402 - needs torch

pytestmark = pytest.mark.gpu

OTHER_PROCESS = """
import sys
import torch
from kvtier.client.torch import PagedKV, map_gpu_tier
handle, uuid = bytes.fromhex(sys.argv[1]), sys.argv[2]
size, slot = int(sys.argv[3]), int(sys.argv[4])
kv = torch.arange(2 * 8 * 16 * 2 * 8, dtype=torch.float32, device="cuda:0").view(2, 8, 16, 2, 8)
paged = PagedKV([kv], block_dim=1)
with map_gpu_tier(handle, uuid, size) as tier:
    paged.gather([3], out=tier[slot : slot + paged.block_bytes].view(1, -1))
"""


@pytest.fixture(autouse=True)
def cuda(cupy: Any) -> None:
    if not torch.cuda.is_available():
        cannot_run("this torch is built for the CPU alone")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.float16])
@pytest.mark.parametrize("block_dim", [0, 1])
def test_a_gpu_gives_the_payloads_that_the_processor_gives(dtype: Any, block_dim: int) -> None:
    """And takes them back, from its own memory and from the host's."""
    shape = (2, 64, 16, 4, 32) if block_dim else (64, 2, 16, 4, 32)
    here = [torch.randn(shape).to(dtype) for _ in range(3)]
    there = [torch.zeros(shape, dtype=dtype, device="cuda") for _ in range(3)]
    near, far = PagedKV(here, block_dim=block_dim), PagedKV(there, block_dim=block_dim)
    ids, places = [63, 0, 17], [5, 6, 1]

    far.scatter(places, buffers(near.gather(ids)))
    far.scatter([9, 10, 11], far.gather(places))

    assert torch.equal(far.gather(places).cpu(), near.gather(ids))
    assert torch.equal(far.gather([9, 10, 11]).cpu(), near.gather(ids))
    assert [bytes(each) for each in buffers(far.gather(places))] == [
        bytes(each) for each in buffers(near.gather(ids))
    ]


def test_payloads_go_to_cupy_without_a_copy(cupy: Any) -> None:
    """Both see one memory."""
    payloads = PagedKV(torch.ones(4, 16, 8, device="cuda"), block_dim=0).gather([0, 1])

    array = cupy.from_dlpack(payloads)
    array[0, 0] = 123
    cupy.cuda.runtime.deviceSynchronize()

    assert payloads[0, 0].item() == 123


def test_an_engine_writes_into_a_slot_of_the_tier(open_gpu: OpenGpu) -> None:
    """From a process of its own, straight from its tensors."""
    store, slot = open_gpu(1 << 20), 4096
    handle, size = store.ipc_handle(), 2 * 16 * 2 * 8 * 4
    assert handle is not None

    done = subprocess.run(
        [
            sys.executable,
            "-c",
            OTHER_PROCESS,
            handle.hex(),
            store.device_uuid,
            str(store.capacity_bytes),
            str(slot),
        ],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    kv = torch.arange(2 * 8 * 16 * 2 * 8, dtype=torch.float32).view(2, 8, 16, 2, 8)
    (expected,) = buffers(PagedKV([kv], block_dim=1).gather([3]))
    assert store.read(slot, size) == bytes(expected)
