"""Stores of every kind, and processes that hold one."""

import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from kvtier.server.stores.base import BlockStore
from kvtier.server.stores.cuda import CudaDevice
from kvtier.server.stores.emulated import EmulatedDevice
from kvtier.server.stores.gpu import GpuStore
from kvtier.server.stores.host import HostStore

from .fake_cupy import make_cupy

HOLDER = """
import sys
from pathlib import Path
from kvtier.server.stores.host import HostStore
store = HostStore(Path(sys.argv[1]), "node", sys.argv[2], int(sys.argv[3]))
print("open", flush=True)
sys.stdin.read()
store.close()
"""

OpenStore = Callable[[int], BlockStore]
OpenKind = Callable[[str, int], BlockStore]
Hold = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def fake_cupy(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A package with the part of CuPy that stores use, over NumPy, with one GPU."""
    cupy = make_cupy()
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    return cupy


@pytest.fixture
def open_kind(tmp_path: Path, fake_cupy: types.ModuleType) -> Iterator[OpenKind]:
    """Open stores of a kind and a size, closed at the end."""
    stores: list[BlockStore] = []
    makers: dict[str, OpenStore] = {
        "host": lambda size: HostStore(tmp_path, "node", f"t{len(stores)}", size),
        "emulated": lambda size: GpuStore(EmulatedDevice(), size),
        "cuda": lambda size: GpuStore(CudaDevice(fake_cupy, 0), size),
    }

    def make(kind: str, size: int) -> BlockStore:
        stores.append(makers[kind](size))
        return stores[-1]

    yield make
    for store in stores:
        store.close()


@pytest.fixture(params=["host", "emulated", "cuda"])
def open_any(request: pytest.FixtureRequest, open_kind: OpenKind) -> OpenStore:
    """Open stores of one kind, closed at the end."""
    return partial(open_kind, request.param)


@pytest.fixture
def hold() -> Iterator[Hold]:
    """Start processes that hold a host store, ended at the end."""
    processes: list[subprocess.Popen[str]] = []

    def start(directory: Path, tier: str = "cpu0", size: int = 4096) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(directory), tier, str(size)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()
