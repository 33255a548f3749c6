"""Tests that need an NVIDIA GPU: `make test-gpu` runs them and fails where there is none."""

import importlib
import os
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import pytest

from kvtier.server.stores.devices import find_device
from kvtier.server.stores.gpu import GpuStore

OpenGpu = Callable[[int], GpuStore]


def _why_not() -> str:
    """Say what the GPU tests lack here; empty where they can run."""
    try:
        cupy = importlib.import_module("cupy")
        count = cupy.cuda.runtime.getDeviceCount()
    except ImportError as error:
        return f"CuPy is not installed ({error})"
    except RuntimeError as error:
        return f"CUDA finds no GPU ({error})"
    return "" if count else "CUDA finds no GPU"


def cannot_run(why: str) -> NoReturn:
    """Skip a test, or fail it in `make test-gpu`, and say what it lacks."""
    if os.environ.get("KVTIER_TEST_GPU"):
        pytest.fail(f"the GPU tests cannot run: {why}")
    pytest.skip(f"needs an NVIDIA GPU: {why}")


@pytest.fixture(autouse=True, scope="session")
def cupy() -> Any:
    """CuPy, on a machine with a GPU; elsewhere the test is skipped, or fails in `make test-gpu`."""
    why = _why_not()
    if why:
        cannot_run(why)
    return importlib.import_module("cupy")


@pytest.fixture
def open_gpu(cupy: Any) -> Iterator[OpenGpu]:
    """Open stores of a size on the first GPU, closed at the end."""
    stores: list[GpuStore] = []

    def make(size: int) -> GpuStore:
        stores.append(GpuStore(find_device("cuda:0"), size))
        return stores[-1]

    yield make
    for store in stores:
        store.close()
