"""The host store: one file in shared memory, held by one process, gone with it."""

import mmap
import os
import resource
import shutil
import signal
import stat
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from kvtier.server.stores.base import StoreError
from kvtier.server.stores.host import HostStore
from kvtier.server.stores.shared_file import file_name

Hold = Callable[..., subprocess.Popen[str]]


def try_open(directory: Path) -> HostStore | None:
    try:
        return HostStore(directory, "node", "cpu0", 4096)
    except StoreError:
        return None


@pytest.mark.parametrize("populate", [23, 9999])
def test_the_file_is_private_whole_from_the_start_and_gone_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, populate: int
) -> None:
    """Its memory is all allocated, also by a kernel that cannot map it all at once."""
    monkeypatch.setattr("kvtier.server.stores.host._MADV_POPULATE_WRITE", populate)
    store = HostStore(tmp_path, "node", "cpu0", 1 << 20)
    status = store.path.stat()
    store.close()

    assert stat.S_IMODE(status.st_mode) == 0o600
    assert status.st_size == (1 << 20) + 4096 <= status.st_blocks * 512
    assert list(tmp_path.iterdir()) == []


def test_pages_are_mapped_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first write to a slot costs no page faults; pages are mapped piece by piece."""
    monkeypatch.setattr("kvtier.server.stores.host._PIECE", 3 << 20)
    size, page = 8 << 20, 4096
    with closing(HostStore(Path("/dev/shm"), f"pages-{os.getpid()}", "cpu0", size)) as store:
        store.write(0, b"x")

        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for position in range(0, size, page):
            store.write(position, b"x")
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    assert faults < size // page // 8


@pytest.mark.parametrize("killed", [False, True])
def test_its_memory_is_given_back_though_a_caller_has_it_mapped(
    hold: Hold, tmp_path: Path, killed: bool
) -> None:
    """The caller reads zeros then, and is not killed; nor is the next node short of memory."""
    folder = Path("/dev/shm") / f"kvtier-test-{os.getpid()}-{tmp_path.name}"
    folder.mkdir()
    try:
        process = hold(folder, size=4 << 20)
        (path,) = folder.iterdir()
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
            mapping[-8:] = b"by a cal"
            before = os.fstat(file.fileno()).st_blocks
            if killed:
                process.kill()
            process.communicate()
            if killed:
                HostStore(folder, "node", "cpu0", 4096).close()
            after = os.fstat(file.fileno()).st_blocks
            read = mapping[-8:]
    finally:
        shutil.rmtree(folder)

    assert before * 512 >= 4 << 20
    assert (after, read) == (0, bytes(8))


def test_a_process_that_was_killed_leaves_nothing_that_blocks_the_next_start(
    tmp_path: Path, hold: Hold
) -> None:
    """Nor does the memory of another tier that it had stay taken."""
    for tier in ("cpu0", "cpu1"):
        process = hold(tmp_path, tier)
        process.send_signal(signal.SIGKILL)
        process.wait()
    left = len(list(tmp_path.iterdir()))

    store = HostStore(tmp_path, "node", "cpu0", 8192)

    assert left == 1
    assert list(tmp_path.iterdir()) == [store.path]
    store.write(8191, b"x")
    store.close()


def test_one_process_at_a_time_has_a_tier(tmp_path: Path, hold: Hold) -> None:
    """The second is refused with what to do, and the first is not disturbed."""
    process = hold(tmp_path)

    with pytest.raises(StoreError, match=r"is held by another process or user; stop the other"):
        HostStore(tmp_path, "node", "cpu0", 4096)

    assert [p.name for p in tmp_path.iterdir()] == [file_name("node", "cpu0")]
    process.communicate("")
    assert process.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_tiers_and_nodes_have_files_of_their_own(tmp_path: Path, hold: Hold) -> None:
    """Another tier's file is left alone while its process lives."""
    hold(tmp_path, "cpu1")

    one = HostStore(tmp_path, "node", "cpu0", 4096)
    other = HostStore(tmp_path, "node2", "cpu0", 4096)

    assert len(list(tmp_path.iterdir())) == 3
    one.close()
    other.close()


def test_of_many_that_start_at_one_moment_one_gets_the_tier(tmp_path: Path) -> None:
    """However they interleave: never two, and never none."""
    with ThreadPoolExecutor(8) as pool:
        for _ in range(20):
            opened = [s for s in pool.map(try_open, [tmp_path] * 8) if s]
            assert len(opened) == 1
            opened[0].close()


def test_a_link_in_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    """A directory that all may write to is no way into other files."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    shm = tmp_path / "shm"
    shm.mkdir()
    (shm / file_name("node", "cpu0")).symlink_to(victim)

    with pytest.raises(StoreError, match="is held by another process or user"):
        HostStore(shm, "node", "cpu0", 4096)

    assert victim.read_text() == "precious"


def test_the_file_of_another_user_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by a user who could remove it."""
    path = tmp_path / file_name("node", "cpu0")
    path.write_bytes(b"theirs")
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)

    with pytest.raises(StoreError, match="is held by another process or user"):
        HostStore(tmp_path, "node", "cpu0", 4096)

    assert path.read_bytes() == b"theirs"


def test_a_directory_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    """With what to give instead."""
    with pytest.raises(
        StoreError, match=r"none/kvtier-\S+ cannot be created: No such file.*shm_dir"
    ):
        HostStore(tmp_path / "none", "node", "cpu0", 4096)


@pytest.mark.parametrize(
    ("node_id", "tier"),
    [("..", "../../etc"), ("a/b", "c\0d"), ("n" * 5000, "t" * 5000), ("", ""), ("é", "\n")],
)
def test_no_text_leads_out_of_the_directory(node_id: str, tier: str) -> None:
    """A name is one printable component of a path, of a length that file systems take."""
    name = file_name(node_id, tier)

    assert Path(name).name == name
    assert len(name) < 200
    assert name.isascii()
    assert name.isprintable()


def test_different_texts_never_give_one_name() -> None:
    """Also where the readable part is the same."""
    pairs = [
        ("a", "b-c"),
        ("a-b", "c"),
        ("a_b", "c"),
        ("a.b", "c"),
        ("n" * 70, "c"),
        ("n" * 71, "c"),
    ]

    assert len({file_name(*pair) for pair in pairs}) == len(pairs)
