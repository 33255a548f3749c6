"""How a GPU store moves blocks, on a GPU that is as strict as a real one."""

import ctypes
import os
import types
from random import Random
from typing import Any

import numpy as np
import pytest

from kvtier.server.stores.base import Bytes, StoreError
from kvtier.server.stores.copying import copy_slots
from kvtier.server.stores.cuda import CudaDevice, device_uuid
from kvtier.server.stores.emulated import EmulatedDevice
from kvtier.server.stores.gpu import LANE_BYTES, GpuStore

LARGE = 256 << 10


@pytest.fixture
def store(fake_cupy: types.ModuleType) -> GpuStore:
    return GpuStore(CudaDevice(fake_cupy, 0), 24 << 20)


def random_blocks(*sizes: int) -> list[Bytes]:
    random = Random(7)
    return [np.frombuffer(random.randbytes(size), np.uint8) for size in sizes]


def read(store: GpuStore, positions: list[int], sizes: list[int]) -> list[bytes]:
    blocks: list[Bytes] = [np.empty(size, np.uint8) for size in sizes]
    store.read_into(positions, blocks)
    return [block.tobytes() for block in blocks]


def test_many_small_blocks_cross_at_once(store: GpuStore, fake_cupy: Any) -> None:
    """One launch of the kernel, and one copy of the bytes beside that of the table."""
    blocks = random_blocks(*range(1000, 1100))
    positions = [i * 4099 for i in range(100)]

    store.write_many(positions, blocks)
    written = (list(fake_cupy.fake.launches), fake_cupy.fake.copies)
    got = read(store, positions, [block.size for block in blocks])

    assert written == ([(100, 1)], 2)
    assert len(fake_cupy.fake.launches) == 2
    assert fake_cupy.fake.copies == 4
    assert got == [block.tobytes() for block in blocks]


def test_what_is_more_than_the_staging_memory_crosses_in_steps(store: GpuStore) -> None:
    """A block of its own that is larger, and blocks that are larger together."""
    sizes = [LANE_BYTES + 12345, 3 << 20, 3 << 20, 3 << 20, 1]
    blocks = random_blocks(*sizes)
    positions = np.cumsum([3, *sizes[:-1]]).tolist()

    store.write_many(positions, blocks)

    assert read(store, positions, sizes) == [block.tobytes() for block in blocks]


def test_large_blocks_of_pinned_memory_cross_by_themselves(store: GpuStore, fake_cupy: Any) -> None:
    """Straight to and from their places, without the kernel; small ones among them are gathered."""
    host: Bytes = np.zeros(4 * LARGE, np.uint8)
    host[:] = random_blocks(host.size)[0]
    before = host.tobytes()
    parts = [host[:LARGE], host[LARGE : LARGE + 100], host[2 * LARGE :]]
    positions = [7, 1 << 20, 2 << 20]
    store.pin(host)

    store.write_many(positions, parts)
    launches, copies = len(fake_cupy.fake.launches), fake_cupy.fake.copies
    host[:] = 0
    store.read_into(positions, parts)

    assert (launches, copies) == (1, 4)
    assert [part.tobytes() for part in parts] == [
        before[:LARGE],
        before[LARGE : LARGE + 100],
        before[2 * LARGE :],
    ]
    store.unpin(host)


def test_stores_on_gpus_copy_without_the_host(store: GpuStore, fake_cupy: Any) -> None:
    """The digest is read back from the target."""
    target = GpuStore(CudaDevice(fake_cupy, 0), 1 << 20)
    (block,) = random_blocks(100_000)
    store.write(5, block.data)
    fake_cupy.fake.launches.clear()

    copy_slots(store, [5], target, [77], [100_000])

    assert len(fake_cupy.fake.launches) == 1
    assert target.read(77, 100_000) == block.tobytes()


@pytest.mark.parametrize("when", ["given", "waited for"])
def test_an_error_of_the_gpu_is_never_success(
    store: GpuStore, fake_cupy: Any, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """It is raised at once, also when it comes only with the end of the work."""
    fake = fake_cupy.fake
    if when == "given":
        fake.broken = "cudaErrorIllegalAddress"
    else:
        monkeypatch.setattr(fake, "memcpy_async", lambda *_: None)
        stream = "tests.unit.stores.fake_cupy.Stream.synchronize"

        def fail(_: object) -> None:
            raise RuntimeError("cudaErrorIllegalAddress")

        monkeypatch.setattr(stream, fail)

    with pytest.raises(RuntimeError, match="cudaErrorIllegalAddress"):
        store.write(0, b"data")
    with pytest.raises(RuntimeError, match="cudaErrorIllegalAddress"):
        store.read(0, 4)
    with pytest.raises(RuntimeError, match="cudaErrorIllegalAddress"):
        copy_slots(store, [0], store, [8], [4])


def test_a_store_works_on_after_an_error(store: GpuStore, fake_cupy: Any) -> None:
    """What had the error holds nothing back: as many errors as there are ways across, and more."""
    for _ in range(20):
        fake_cupy.fake.broken = "cudaErrorLaunchFailure"
        with pytest.raises(RuntimeError, match="cudaErrorLaunchFailure"):
            store.write(0, b"data")
        fake_cupy.fake.broken = ""

    store.write(0, b"data")

    assert store.read(0, 4) == b"data"


def test_a_gpu_that_does_not_work_is_told_at_the_start(fake_cupy: Any) -> None:
    """With what CUDA says, and how much memory copies need."""
    fake_cupy.fake.broken = "cudaErrorECCUncorrectable"

    with pytest.raises(
        StoreError,
        match=r"^cuda:0 cannot be made ready for copies: .*cudaErrorECCUncorrectable.* 32 MiB are",
    ):
        GpuStore(CudaDevice(fake_cupy, 0), 1 << 20)


def test_the_arena_is_shared_by_one_handle(store: GpuStore) -> None:
    """64 bytes; the arena is whole pieces of 2 MiB, so that it shares nothing else."""
    handle = store.ipc_handle()
    store.close()

    assert handle is not None
    assert len(handle) == 64
    assert store.ipc_handle() is None


def test_an_emulated_store_is_not_shared() -> None:
    """It has neither a handle nor a GPU to name."""
    store = GpuStore(EmulatedDevice(), 4096)

    assert store.ipc_handle() is None
    assert store.device_uuid == ""


def test_the_uuid_is_what_the_driver_tells() -> None:
    """All 16 bytes of it, also behind a zero."""
    raw = bytes([1, 0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0])

    def tell(target: Any, device: Any) -> int:
        ctypes.memmove(target, raw, 16)
        return 0

    driver = types.SimpleNamespace(
        cuInit=lambda _: 0, cuDeviceGet=lambda *_: 0, cuDeviceGetUuid_v2=tell
    )

    assert device_uuid(0, driver) == "GPU-01000203-0405-0607-0809-0a0b0c0d0e00"


def test_a_driver_without_an_answer_is_an_error() -> None:
    """With its number."""
    driver = types.SimpleNamespace(cuInit=lambda _: 3)

    with pytest.raises(RuntimeError, match="UUID of cuda:2: error 3"):
        device_uuid(2, driver)


def test_a_kernel_that_cannot_be_compiled_is_told_at_the_start(
    fake_cupy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what brings the compiler; nothing is kept on disk."""

    def fail(_: object) -> None:
        raise OSError("libnvrtc.so.13 not found")

    monkeypatch.delenv("CUPY_CACHE_IN_MEMORY", raising=False)
    monkeypatch.setattr("tests.unit.stores.fake_cupy.RawKernel.compile", fail)

    with pytest.raises(StoreError, match=r"libnvrtc.so.13 not found \(NVRTC comes with kvtier\["):
        GpuStore(CudaDevice(fake_cupy, 0), 4096)

    assert os.environ["CUPY_CACHE_IN_MEMORY"] == "1"
