"""Real disks that are full, read-only or another user's, each in a process of its own."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

BEGIN = """
import os, subprocess, sys
from pathlib import Path
from kvtier.server.lasting.files import FileShelf
from kvtier.server.lasting.shelf import ShelfError
from kvtier.server.stores.base import StoreError
from tests.unit.lasting.shelving import bytes_of, is_there, name_of, names_of
root = Path(sys.argv[1])
MIB = 1 << 20

def attempt(number, length=MIB):
    try:
        shelf.put(name_of(number), [bytes_of(number, length)])
    except ShelfError as error:
        return str(error)
    return "stored"
"""
FILL = """
shelf = FileShelf(root, sync="close")
answers = [attempt(number) for number in range(40)]
stored = answers.index("no space left on device")
assert 4 <= stored <= 8, answers
assert set(answers[stored:]) == {"no space left on device"}, answers
assert len(names_of(shelf)) == stored and os.listdir(root / "partial") == []
assert all(is_there(shelf, number, MIB) for number in range(stored))
try:
    shelf.probe(MIB)
except ShelfError as error:
    assert str(error) == "no space left on device"
else:
    raise AssertionError
shelf.close()
shelf = FileShelf(root, sync="close")
shelf.delete([name_of(0), name_of(1)])
shelf.probe(MIB)
assert attempt(50) == "stored"
"""
REMOUNT = """
shelf = FileShelf(root, sync="close")
assert attempt(1) == "stored"
subprocess.run(["mount", "-o", "remount,ro", str(root)], check=True)
assert attempt(2) == "read-only file system"
assert is_there(shelf, 1, MIB)
shelf.close()
try:
    FileShelf(root, sync="close")
except StoreError as error:
    assert str(error) == (
        f"{root} cannot be used: read-only file system; mount it for writing, or give another "
        "directory"
    )
else:
    raise AssertionError
subprocess.run(["mount", "-o", "remount,rw", str(root)], check=True)
shelf = FileShelf(root, sync="close")
assert names_of(shelf) == [name_of(1)] and os.listdir(root / "partial") == []
assert attempt(2) == "stored"
"""
FORBID = """
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
shelf = FileShelf(root / "own", sync="none")
assert attempt(1) == "stored"
directories = [shelf_root := root / "own", *(p for p in shelf_root.rglob("*") if p.is_dir())]
for directory in directories:
    directory.chmod(0o555)
assert {attempt(number) for number in range(10, 30)} == {"permission denied"}
try:
    shelf.probe(1)
except ShelfError as error:
    assert str(error) == "permission denied"
else:
    raise AssertionError
assert is_there(shelf, 1, MIB)
shelf.close()
try:
    FileShelf(shelf_root, sync="none")
except StoreError as error:
    assert str(error) == (
        f"{shelf_root} cannot be used: permission denied; give a directory that this user may "
        "read and write"
    )
else:
    raise AssertionError
for directory in directories:
    directory.chmod(0o700)
shelf = FileShelf(shelf_root, sync="none")
assert names_of(shelf) == [name_of(1)] and os.listdir(shelf_root / "partial") == []
assert {attempt(number) for number in range(10, 30)} == {"stored"}
"""


def run(script: str, directory: Path, *prefix: str) -> None:
    """Run a script in a process, and show what it says when it fails."""
    command = [*prefix, sys.executable, "-c", BEGIN + script, str(directory)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.fixture
def mounting(tmp_path: Path) -> list[str]:
    """What a command begins with that has a tmpfs of 8 MiB of its own in `tmp_path`."""
    if subprocess.run(["unshare", "-rm", "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine lets no user mount a tmpfs of its own (unshare -rm)")
    mount = 'mount -t tmpfs -o size=8m tmpfs "$0" && exec "$@"'
    return ["unshare", "-rm", "sh", "-c", mount, str(tmp_path)]


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A directory in which any user may make something."""
    directory = Path(tempfile.mkdtemp())
    directory.chmod(0o777)
    yield directory
    shutil.rmtree(directory)


def test_a_full_disk_refuses_and_takes_again_when_there_is_room(
    tmp_path: Path, mounting: list[str]
) -> None:
    """What was stored stays; nothing unfinished takes room."""
    run(FILL, tmp_path, *mounting)


def test_a_disk_that_becomes_read_only_is_told_and_can_be_read(
    tmp_path: Path, mounting: list[str]
) -> None:
    """A start on it is refused, as is every store."""
    run(REMOUNT, tmp_path, *mounting)


def test_a_directory_that_may_not_be_written_to_is_told_and_can_be_read(
    open_to_all: Path,
) -> None:
    """All is well again when it may."""
    run(FORBID, open_to_all)
