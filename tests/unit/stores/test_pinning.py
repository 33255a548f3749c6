"""Host tiers beside a GPU tier are fixed in place."""

from pathlib import Path
from typing import Any

import pytest

from kvtier.server.stores.cuda import CudaDevice
from kvtier.server.stores.emulated import EmulatedDevice
from kvtier.server.stores.gpu import GpuStore
from kvtier.server.stores.host import HostStore
from kvtier.server.stores.pinning import pinned


def test_a_host_tier_beside_a_gpu_is_pinned_while_it_is_open(
    tmp_path: Path, fake_cupy: Any
) -> None:
    """Whatever other tiers there are; afterwards nothing is."""
    gpu = GpuStore(CudaDevice(fake_cupy, 0), 4096)
    emulated = GpuStore(EmulatedDevice(), 4096)
    hosts = [HostStore(tmp_path, "node", f"cpu{size}", size) for size in (0, 8192, 4096)]
    before = dict(fake_cupy.fake.pinned.sizes)

    with pinned([emulated, *hosts, gpu]):
        new = fake_cupy.fake.pinned.sizes.items() - before.items()
        assert sorted(size for _, size in new) == [4096, 8192]

    assert fake_cupy.fake.pinned.sizes == before
    for host in hosts:
        host.close()


def test_without_a_gpu_nothing_is_pinned(tmp_path: Path) -> None:
    """An emulated tier needs it as little as none."""
    host = HostStore(tmp_path, "node", "cpu0", 4096)

    with pinned([host]), pinned([host, GpuStore(EmulatedDevice(), 4096)]):
        host.write(0, b"data")

    assert host.read(0, 4) == b"data"
    host.close()


def test_a_gpu_that_failed_does_not_keep_a_node_from_ending(
    tmp_path: Path, fake_cupy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers everything with its error from then on."""
    gpu = GpuStore(CudaDevice(fake_cupy, 0), 4096)
    host = HostStore(tmp_path, "node", "cpu0", 4096)
    asked: list[int] = []

    def fail(address: int) -> None:
        asked.append(address)
        raise RuntimeError("cudaErrorIllegalAddress")

    with pinned([gpu, host]):
        monkeypatch.setattr(fake_cupy.cuda.runtime, "hostUnregister", fail)
    host.close()

    assert len(asked) == 1


def test_memory_that_cannot_be_pinned_is_a_warning(
    tmp_path: Path,
    fake_cupy: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Copies then take the way through staging memory."""
    gpu = GpuStore(CudaDevice(fake_cupy, 0), 4096)
    host = HostStore(tmp_path, "node", "cpu0", 4096)

    def fail(*_: object) -> None:
        raise RuntimeError("cudaErrorNotSupported")

    monkeypatch.setattr(fake_cupy.cuda.runtime, "hostRegister", fail)

    with pinned([gpu, host]):
        pass

    assert "cudaErrorNotSupported" in capsys.readouterr().out
    host.close()
