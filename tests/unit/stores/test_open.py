"""Which store a tier's configuration opens."""

import sys
import types
from pathlib import Path

import pytest

from kvtier.server.config import TierConfig
from kvtier.server.stores.base import StoreError
from kvtier.server.stores.devices import find_device
from kvtier.server.stores.open import open_store
from kvtier.v1.block_pb2 import MEDIUM_CPU, MEDIUM_GPU


def gpu_tier(device: str) -> TierConfig:
    return TierConfig(name="gpu0", medium="gpu", capacity=4096, device=device)


@pytest.fixture
def no_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)


def test_a_host_tier_is_in_shared_memory(tmp_path: Path) -> None:
    """In the directory that the configuration names."""
    tier = TierConfig(name="cpu0", medium="cpu", capacity=4096, shm_dir=tmp_path)

    store = open_store(tier, "node")

    assert (store.medium, store.device, store.capacity_bytes) == (
        MEDIUM_CPU,
        "shared-memory",
        4096,
    )
    assert len(list(tmp_path.iterdir())) == 1
    store.close()


@pytest.mark.parametrize(("device", "real"), [("auto", "cuda:0"), ("cuda:0", "cuda:0")])
@pytest.mark.usefixtures("fake_cupy")
def test_a_gpu_tier_is_on_the_gpu_where_there_is_one(device: str, real: str) -> None:
    """`auto` takes the first."""
    store = open_store(gpu_tier(device), "node")

    assert (store.medium, store.device) == (MEDIUM_GPU, real)


@pytest.mark.usefixtures("no_cupy")
@pytest.mark.parametrize("device", ["auto", "emulated"])
def test_without_cupy_a_gpu_tier_is_emulated_and_says_so(device: str) -> None:
    """The device that it names is the one that holds the bytes."""
    store = open_store(gpu_tier(device), "node")

    assert (store.medium, store.device) == (MEDIUM_GPU, "emulated")


def test_without_a_usable_gpu_auto_is_emulated(fake_cupy: types.ModuleType) -> None:
    """CuPy can be installed on a machine without a driver."""
    fake_cupy.cuda.is_available = lambda: False

    assert open_store(gpu_tier("auto"), "node").device == "emulated"


@pytest.mark.usefixtures("fake_cupy")
def test_emulated_is_emulated_also_where_there_is_a_gpu() -> None:
    """A GPU is not touched when it was not asked for."""
    assert open_store(gpu_tier("emulated"), "node").device == "emulated"


@pytest.mark.usefixtures("no_cupy")
def test_a_gpu_without_its_package_is_refused() -> None:
    """Naming what to install."""
    with pytest.raises(StoreError, match=r"^tier gpu0: cuda:0 needs the package cupy"):
        open_store(gpu_tier("cuda:0"), "node")


def test_a_gpu_without_a_driver_is_refused(fake_cupy: types.ModuleType) -> None:
    """With what CUDA says."""

    def fail() -> int:
        raise RuntimeError("cudaErrorInsufficientDriver: too old")

    fake_cupy.cuda.runtime.getDeviceCount = fail

    with pytest.raises(StoreError, match=r"cuda:0 cannot be used: cudaErrorInsufficientDriver"):
        find_device("cuda:0")


@pytest.mark.usefixtures("fake_cupy")
def test_a_gpu_that_is_not_there_is_refused() -> None:
    """With the number of those that are."""
    with pytest.raises(StoreError, match=r"^cuda:1 does not exist: there are 1 usable GPUs"):
        find_device("cuda:1")
