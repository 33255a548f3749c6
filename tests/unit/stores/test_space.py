"""Too little memory is an error at the start with numbers, never a crash later."""

import subprocess
import sys
import types
from pathlib import Path

import pytest

from kvtier.server.config import TierConfig
from kvtier.server.stores.base import StoreError
from kvtier.server.stores.cuda import CudaDevice
from kvtier.server.stores.emulated import EmulatedDevice
from kvtier.server.stores.gpu import GpuStore
from kvtier.server.stores.host import HostStore
from kvtier.server.stores.memory import available_memory
from kvtier.server.stores.open import open_store

OPEN = """
import resource, sys
from pathlib import Path
from kvtier.server.stores.base import StoreError
from kvtier.server.stores.host import HostStore
directory, size, limit, amount = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
if limit:
    resource.setrlimit(getattr(resource, limit), (amount, amount))
try:
    store = HostStore(directory, "node", "cpu0", size)
except StoreError as error:
    sys.exit(str(error))
rest = directory / "rest"
try:
    rest.write_bytes(bytes(64 << 20))
except OSError as error:
    print(error.strerror)
store.write(0, bytes(size))
store.close()
"""
MIB = 1 << 20


def run(
    directory: Path, size: int, *, limit: str = "", amount: int = 0, tmpfs: str = ""
) -> subprocess.CompletedProcess[str]:
    """Open a store in a process of its own, in a tmpfs of a size if one is given."""
    command = [sys.executable, "-c", OPEN, str(directory), str(size), limit, str(amount)]
    if tmpfs:
        mount = f'mount -t tmpfs -o size={tmpfs} tmpfs "$0" && exec "$@"'
        command = ["unshare", "-rm", "sh", "-c", mount, str(directory), *command]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def small_tmpfs(tmp_path: Path) -> Path:
    """A directory on which a process may mount a tmpfs of its own."""
    if subprocess.run(["unshare", "-rm", "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine lets no user mount a tmpfs of its own (unshare -rm)")
    return tmp_path


def test_a_tier_larger_than_shared_memory_is_refused_with_numbers(small_tmpfs: Path) -> None:
    """As in a container whose /dev/shm is smaller than the tier."""
    result = run(small_tmpfs, 16 * MIB, tmpfs="4m")

    assert result.returncode == 1
    assert result.stderr.startswith(f"16 MiB are needed in {small_tmpfs} and 4 MiB are free (No sp")
    assert "lower the tier's capacity, or enlarge" in result.stderr


def test_a_tier_that_fits_keeps_its_memory_when_the_rest_is_used_up(small_tmpfs: Path) -> None:
    """Every byte can be written after somebody else filled the directory."""
    result = run(small_tmpfs, 3 * MIB, tmpfs="4m")

    assert (result.returncode, result.stdout) == (0, "No space left on device\n")


def test_a_tmpfs_without_a_limit_is_taken_as_far_as_memory_goes(small_tmpfs: Path) -> None:
    """Such a file system tells no free space."""
    assert run(small_tmpfs, MIB, tmpfs="0").returncode == 0


@pytest.mark.parametrize(
    ("limit", "amount", "told"),
    [
        ("RLIMIT_FSIZE", MIB, "2 MiB are needed in"),
        ("RLIMIT_AS", 1, "2 MiB of shared memory cannot be mapped: Cannot allocate memory"),
    ],
)
def test_a_limit_of_the_process_is_told_and_nothing_is_left(
    tmp_path: Path, limit: str, amount: int, told: str
) -> None:
    """The file is removed again."""
    result = run(tmp_path, 2 * MIB, limit=limit, amount=amount)

    assert result.returncode == 1
    assert result.stderr.startswith(told)
    assert list(tmp_path.iterdir()) == []


def test_a_tier_larger_than_the_machine_is_refused(tmp_path: Path) -> None:
    """Before any memory is taken."""
    with pytest.raises(StoreError, match=r"^8192 TiB are needed in .* are free"):
        HostStore(tmp_path, "node", "cpu0", 1 << 53)
    with pytest.raises(StoreError, match=r"^8192 TiB are needed on emulated and .* are free"):
        GpuStore(EmulatedDevice(), 1 << 53)

    assert list(tmp_path.iterdir()) == []


def test_a_gpu_with_too_little_memory_is_told_with_numbers(fake_cupy: types.ModuleType) -> None:
    """The GPU's own free memory counts."""
    with pytest.raises(StoreError, match=r"^65 MiB are needed on cuda:0 and 64 MiB are free"):
        GpuStore(CudaDevice(fake_cupy, 0), 65 * MIB)


def test_memory_that_went_meanwhile_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Free memory is only what it was a moment ago."""

    def fail(self: EmulatedDevice, size: int) -> None:
        raise MemoryError

    monkeypatch.setattr(EmulatedDevice, "allocate", fail)

    with pytest.raises(StoreError, match=r"^1 B are needed on emulated and .* are free"):
        GpuStore(EmulatedDevice(), 1)


def test_the_message_names_the_tier(tmp_path: Path) -> None:
    """A node may have several."""
    tier = TierConfig(name="cpu7", medium="cpu", capacity=1 << 53, shm_dir=tmp_path)

    with pytest.raises(StoreError, match=r"^tier cpu7: 8192 TiB are needed"):
        open_store(tier, "node")


@pytest.mark.parametrize(
    ("meminfo", "limit", "available"),
    [
        ("MemTotal: 9 kB\nMemAvailable:    4 kB\n", "max\n", 4096),
        ("MemAvailable: 4 kB\n", "1000\n", 1000),
        ("MemAvailable: 4 kB\n", "5000\n", 4096),
        ("MemTotal: 9 kB\n", None, 1 << 63),
        (None, "77\n", 77),
    ],
)
def test_available_memory_is_what_machine_and_container_both_allow(
    tmp_path: Path, meminfo: str | None, limit: str | None, available: int
) -> None:
    """What cannot be known limits nothing."""
    paths = tmp_path / "meminfo", tmp_path / "memory.max"
    for path, text in zip(paths, (meminfo, limit), strict=True):
        if text is not None:
            path.write_text(text)

    assert available_memory(*paths) == available
