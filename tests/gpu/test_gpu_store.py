"""The GPU store on a real GPU."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from xxhash import xxh3_64_intdigest

from kvtier.server.stores.base import Bytes, StoreError
from kvtier.server.stores.copying import copy_slots
from kvtier.server.stores.devices import find_device
from kvtier.server.stores.gpu import LANE_BYTES, GpuStore
from kvtier.server.stores.host import HostStore
from kvtier.server.stores.pinning import pinned

from .conftest import OpenGpu

pytestmark = pytest.mark.gpu

MIB = 1 << 20
OTHER_PROCESS = """
import sys
import cupy
handle, size = bytes.fromhex(sys.argv[1]), int(sys.argv[2])
address = cupy.cuda.runtime.ipcOpenMemHandle(handle)
memory = cupy.cuda.UnownedMemory(address, size, None)
arena = cupy.ndarray((size,), "uint8", cupy.cuda.MemoryPointer(memory, 0))
print(arena[:8].tobytes().hex(), flush=True)
arena[8:16] = cupy.frombuffer(b"from you", dtype="uint8")
cupy.cuda.runtime.deviceSynchronize()
cupy.cuda.runtime.ipcCloseMemHandle(address)
"""


def random_blocks(seed: int, *sizes: int) -> list[Bytes]:
    random = Random(seed)
    return [np.frombuffer(random.randbytes(size), np.uint8) for size in sizes]


def read(store: GpuStore, positions: list[int], sizes: list[int]) -> list[bytes]:
    blocks: list[Bytes] = [np.empty(size, np.uint8) for size in sizes]
    store.read_into(positions, blocks)
    return [block.tobytes() for block in blocks]


@pytest.mark.parametrize(
    "sizes",
    [
        list(range(70)),
        [4096] * 500,
        [99_991, 1, 65_536, 524_287, 15, 17],
        [LANE_BYTES + 333, 3 * MIB, 1],
        [64] * 5000,
    ],
    ids=["tiny", "pages", "odd", "larger than a lane", "more than a table"],
)
@pytest.mark.parametrize("gap", [0, 1, 48])
def test_blocks_are_scattered_and_gathered_byte_for_byte(
    open_gpu: OpenGpu, sizes: list[int], gap: int
) -> None:
    """Of any size at any place, and the bytes between them are untouched."""
    store = open_gpu(sum(sizes) + gap * (len(sizes) + 1))
    before = Random(3).randbytes(store.capacity_bytes)
    store.write(0, before)
    blocks, expected, position = random_blocks(4, *sizes), bytearray(before), gap
    positions = []
    for block in blocks:
        positions.append(position)
        expected[position : position + block.size] = block.tobytes()
        position += block.size + gap

    store.write_many(positions, blocks)

    assert store.read(0, store.capacity_bytes) == expected
    assert read(store, positions, sizes) == [block.tobytes() for block in blocks]


def test_threads_copy_at_one_time_without_mixing(open_gpu: OpenGpu) -> None:
    """More of them than there are ways across; each finds its own bytes, round after round."""
    workers, part = 12, MIB
    store = open_gpu(workers * part)

    def work(worker: int) -> bool:
        sizes = [part // 8 - 1] * 8
        positions = [worker * part + i * part // 8 for i in range(8)]
        for turn in range(10):
            blocks = random_blocks(worker * 100 + turn, *sizes)
            store.write_many(positions, blocks)
            if read(store, positions, sizes) != [block.tobytes() for block in blocks]:
                return False
        return True

    with ThreadPoolExecutor(workers) as pool:
        assert all(pool.map(work, range(workers)))


@pytest.mark.parametrize("is_pinned", [False, True])
def test_slots_go_down_to_a_host_tier_and_up_again(
    open_gpu: OpenGpu, tmp_path: Path, is_pinned: bool
) -> None:
    """Past the staging memory where the tier is pinned; digests are of the very bytes."""
    sizes = [300_001, 4096, 200_000, 17]
    gpu, host = open_gpu(2 * MIB), HostStore(tmp_path, "node", "cpu0", 2 * MIB)
    blocks = random_blocks(5, *sizes)
    here, there, back = (
        [0, 400_000, 500_001, 900_000],
        [64, 700_003, 310_000, 7],
        [
            1_000_000,
            1_400_000,
            1_500_000,
            1_800_003,
        ],
    )
    gpu.write_many(here, blocks)

    with pinned([gpu, host] if is_pinned else []):
        down = copy_slots(gpu, here, host, [each + 1_000_000 for each in there], sizes)
        up = copy_slots(host, [each + 1_000_000 for each in there], gpu, back, sizes)

    assert down == up == [xxh3_64_intdigest(block.data) for block in blocks]
    assert read(gpu, back, sizes) == [block.tobytes() for block in blocks]
    host.close()


def test_slots_go_from_one_store_to_another_on_the_gpu(open_gpu: OpenGpu) -> None:
    """Byte for byte, with the digests of what arrived."""
    source, target = open_gpu(MIB), open_gpu(MIB)
    blocks = random_blocks(6, 100_003, 5)
    source.write_many([1, 200_000], blocks)

    digests = copy_slots(source, [1, 200_000], target, [300_002, 0], [100_003, 5])

    assert digests == [xxh3_64_intdigest(block.data) for block in blocks]
    assert read(target, [300_002, 0], [100_003, 5]) == [block.tobytes() for block in blocks]


def test_another_process_maps_the_arena(open_gpu: OpenGpu) -> None:
    """It reads what was stored here, and what it writes is read here."""
    store = open_gpu(3 * MIB + 5)
    store.write(0, b"from me.........")
    handle = store.ipc_handle()
    assert handle is not None

    done = subprocess.run(
        [sys.executable, "-c", OTHER_PROCESS, handle.hex(), str(store.capacity_bytes)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert bytes.fromhex(done.stdout.strip()) == b"from me."
    assert store.read(0, 16) == b"from me.from you"


def test_the_uuid_is_one_that_nvidia_smi_lists(open_gpu: OpenGpu) -> None:
    """So a caller finds the GPU by it."""
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout

    assert open_gpu(4096).device_uuid in listed


def test_a_gpu_that_is_not_there_is_refused() -> None:
    """With the number of those that are."""
    with pytest.raises(StoreError, match=r"^cuda:99 does not exist: there are \d+ usable GPUs"):
        find_device("cuda:99")


def test_a_tier_larger_than_the_gpu_is_refused() -> None:
    """With numbers."""
    with pytest.raises(StoreError, match=r"^8192 TiB are needed on cuda:0 and .* are free"):
        GpuStore(find_device("cuda:0"), 1 << 53)


def test_an_arena_that_was_closed_is_free_again(open_gpu: OpenGpu, cupy: Any) -> None:
    """Its memory does not stay with the process."""
    open_gpu(MIB).close()
    before = cupy.cuda.Device(0).mem_info[0]
    store = open_gpu(256 * MIB)
    taken = before - cupy.cuda.Device(0).mem_info[0]

    store.close()

    assert taken >= 256 * MIB
    assert before - cupy.cuda.Device(0).mem_info[0] < 64 * MIB
