"""A shelf of files opens in a directory of its own, and says why it does not elsewhere."""

import errno
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from kvtier.server.lasting.disk import RootedDisk
from kvtier.server.lasting.files import FileShelf
from kvtier.server.lasting.shelf import ShelfError
from kvtier.server.stores.base import StoreError
from tests.unit.lasting.faulty_disk import FaultyDisk
from tests.unit.lasting.shelving import bytes_of, is_there, name_of, names_of

HOLD = """
import sys
from pathlib import Path
from kvtier.server.lasting.disk import RootedDisk
from kvtier.server.lasting.files import FileShelf
shelf = FileShelf(Path(sys.argv[1]), sync="none")
print("open", flush=True)
sys.stdin.read()
"""


def open_shelf(root: Path) -> FileShelf:
    return FileShelf(root, sync="none")


def refusal(root: Path) -> str:
    """Return why a directory is refused."""
    with pytest.raises(StoreError) as raised:
        open_shelf(root)
    return str(raised.value)


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has `tmp_path / "shelf"`."""
    command = [sys.executable, "-c", HOLD, str(tmp_path / "shelf")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "open\n"
            yield process
        finally:
            process.kill()


def test_one_process_at_a_time_has_a_directory(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    """The other one is told which has it; when that is killed, the directory is free."""
    root = tmp_path / "shelf"

    told = refusal(root)
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    open_shelf(root).close()

    assert told == (
        f"{root} is held by another process ({holder.pid}); stop that server, or give this tier a "
        "directory of its own"
    )


def test_a_second_shelf_of_the_same_process_is_refused(tmp_path: Path) -> None:
    """Until the first is closed; a refused one takes nothing away from it."""
    shelf = open_shelf(tmp_path)

    told = [refusal(tmp_path), refusal(tmp_path)]
    shelf.put(name_of(1), [bytes_of(1)])
    shelf.close()
    again = open_shelf(tmp_path)

    assert all(f"is held by another process ({os.getpid()})" in text for text in told)
    assert is_there(again, 1)
    again.close()


def test_a_file_system_that_locks_only_what_is_written_to_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as NFS."""
    flock = fcntl.flock

    def refuse_readers(file: int, operation: int) -> None:
        if fcntl.fcntl(file, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", refuse_readers)
    shelf = open_shelf(tmp_path)

    assert "is held by another process" in refusal(tmp_path)
    shelf.close()
    open_shelf(tmp_path).close()


def test_the_directory_is_made_when_only_it_is_missing(tmp_path: Path) -> None:
    """A longer path may be a mistake, or a volume that is not mounted."""
    open_shelf(tmp_path / "new").close()

    told = refusal(tmp_path / "not" / "there")

    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        "FORMAT",
        "blocks",
        "lock",
        "namespaces",
        "partial",
    ]
    assert told.endswith(
        "cannot be used: no such file or directory; make the directory above it first"
    )
    assert not (tmp_path / "not").exists()


def test_a_link_to_a_directory_may_be_given(tmp_path: Path) -> None:
    """It is followed once; a shelf stays where it was opened."""
    (tmp_path / "there").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "link").symlink_to("there")
    shelf = open_shelf(tmp_path / "link")
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("other")

    shelf.put(name_of(1), [bytes_of(1)])
    shelf.close()

    assert (tmp_path / "there" / "blocks" / name_of(1)[:2] / name_of(1)).is_file()
    assert list((tmp_path / "other").iterdir()) == []


def test_what_is_no_directory_is_refused(tmp_path: Path) -> None:
    """A file, a link to nothing, and a path that begins anywhere."""
    (tmp_path / "file").write_text("x")
    (tmp_path / "dangling").symlink_to("nowhere")

    assert "not a directory; give a directory" in refusal(tmp_path / "file")
    assert "no such file or directory" in refusal(tmp_path / "dangling")
    assert "is not an absolute path" in refusal(Path("shelf"))
    assert (tmp_path / "file").read_text() == "x"


@pytest.mark.parametrize("foreign", ["notes.txt", "blocks", "partial", ".hidden"])
def test_a_directory_of_somebody_else_is_refused_and_left_alone(
    tmp_path: Path, foreign: str
) -> None:
    """Also when its files are called as the shelf's own."""
    (tmp_path / foreign).mkdir()
    (tmp_path / foreign / "important").write_text("x")

    told = refusal(tmp_path)

    assert f"has other files, such as '{foreign}'; give an empty directory" in told
    assert [path.name for path in tmp_path.rglob("*")] == [foreign, "important"]


def test_a_file_system_of_its_own_may_be_given(tmp_path: Path) -> None:
    """A new one has a directory in it."""
    (tmp_path / "lost+found").mkdir()

    open_shelf(tmp_path).close()


@pytest.mark.parametrize("line", ["kvtier blocks 2\n", "kvtier blocks 1\nand more", "", "x" * 9999])
def test_another_format_is_refused_and_left_alone(tmp_path: Path, line: str) -> None:
    """A later version's blocks are not taken for damaged ones."""
    open_shelf(tmp_path).close()
    (tmp_path / "FORMAT").write_text(line)
    (tmp_path / "partial" / "x").write_text("x")

    told = refusal(tmp_path)

    assert re.search(
        "has blocks of another format, '.*', than this version's, 'kvtier blocks 1';", told
    )
    assert (tmp_path / "FORMAT").read_text() == line
    assert (tmp_path / "partial" / "x").exists()


def test_unfinished_writes_of_an_earlier_process_are_removed_and_counted(tmp_path: Path) -> None:
    """Links too, without following them; blocks stay."""
    shelf = open_shelf(tmp_path)
    shelf.put(name_of(1), [bytes_of(1)])
    shelf.close()
    (tmp_path / "partial" / name_of(2)).write_bytes(b"half")
    (tmp_path / "partial" / "link").symlink_to(tmp_path / "blocks" / name_of(1)[:2] / name_of(1))

    with capture_logs() as logs:
        again = open_shelf(tmp_path)

    assert [(log["event"], log["files"]) for log in logs] == [("unfinished writes removed", 2)]
    assert list((tmp_path / "partial").iterdir()) == []
    assert is_there(again, 1)
    again.close()


@pytest.mark.parametrize("name", ["partial", "blocks", "namespaces", "blocks/ab"])
def test_a_link_in_place_of_a_directory_is_refused(tmp_path: Path, name: str) -> None:
    """What it leads to is left alone."""
    root, outside = tmp_path / "shelf", tmp_path / "outside"
    open_shelf(root).close()
    outside.mkdir()
    (outside / "canary").write_text("x")
    if (root / name).exists():
        (root / name).rmdir()
    (root / name).symlink_to(outside)

    told = refusal(root)

    assert told == f"{root}/{name} is no directory; remove it"
    assert [path.name for path in outside.iterdir()] == ["canary"]


def test_opening_takes_no_more_steps_when_there_are_blocks(tmp_path: Path) -> None:
    """A restart is not held up by a large tier."""
    disks: list[FaultyDisk] = []

    def count(root: int) -> FaultyDisk:
        disks.append(FaultyDisk(RootedDisk(root)))
        return disks[-1]

    open_shelf(tmp_path).close()
    empty = FileShelf(tmp_path, sync="none", disk=count)
    steps = list(disks[0].operations)
    for number in range(50):
        empty.put(name_of(number), [b"x"])
    empty.close()
    FileShelf(tmp_path, sync="none", disk=count).close()

    assert disks[1].operations == steps


def empty(root: Path) -> None:
    """Remove all that lies in a directory."""
    for found in root.iterdir():
        shutil.rmtree(found) if found.is_dir() else found.unlink()


def test_a_directory_that_was_emptied_is_held_again(tmp_path: Path) -> None:
    """The next write makes a lock in place of the one that was removed."""
    shelf = open_shelf(tmp_path)
    empty(tmp_path)

    shelf.put(name_of(1), [bytes_of(1)])

    with pytest.raises(StoreError, match="held by another process"):
        open_shelf(tmp_path)
    shelf.close()
    reopened = open_shelf(tmp_path)
    assert is_there(reopened, 1)
    reopened.close()


def test_a_directory_that_another_took_is_left_to_it(tmp_path: Path) -> None:
    """Who lost its lock to another writes nothing, and says why."""
    shelf = open_shelf(tmp_path)
    empty(tmp_path)
    other = open_shelf(tmp_path)

    with pytest.raises(ShelfError, match="another process has its directory"):
        shelf.put(name_of(1), [bytes_of(1)])
    with pytest.raises(ShelfError, match="another process has its directory"):
        shelf.probe(100)

    assert names_of(other) == []
    shelf.close()
    other.put(name_of(2), [bytes_of(2)])
    assert is_there(other, 2)
    other.close()


def test_a_directory_that_was_removed_is_not_the_one_in_its_place(tmp_path: Path) -> None:
    """Nothing is written to a new one that nobody holds; the reason says what to do."""
    root = tmp_path / "shelf"
    shelf = open_shelf(root)
    shelf.put(name_of(1), [bytes_of(1)])
    shutil.rmtree(root)
    root.mkdir()

    with pytest.raises(ShelfError, match="its directory was removed: start the node again"):
        shelf.put(name_of(2), [bytes_of(2)])
    with pytest.raises(ShelfError, match="its directory was removed: start the node again"):
        shelf.probe(100)

    assert list(root.iterdir()) == []
    shelf.close()
    again = open_shelf(root)
    again.put(name_of(2), [bytes_of(2)])
    assert is_there(again, 2)
    again.close()
