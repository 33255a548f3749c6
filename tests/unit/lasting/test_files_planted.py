"""What somebody put among the blocks is neither followed, waited for, nor taken for one."""

import os
import pickle
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvtier.server.lasting.files import FileShelf
from kvtier.server.lasting.shelf import DamagedError, ShelfError
from tests.unit.lasting.shelving import arrays, bytes_of, is_there, name_of, names_of

KINDS = ["link", "dangling link", "pipe", "socket", "directory", "device"]


class Shell:
    """Unpickling it runs a command."""

    def __init__(self, proof: Path) -> None:
        self.proof = proof

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.proof}",)


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """A file outside, as long as a block."""
    path = tmp_path / "canary"
    path.write_bytes(bytes_of(1))
    return path


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[FileShelf]:
    """A shelf with one block, 1."""
    shelf = FileShelf(tmp_path / "shelf", sync="always")
    shelf.put(name_of(1), [bytes_of(1)])
    yield shelf
    shelf.close()


def plant(path: Path, kind: str, canary: Path) -> None:
    """Put something in place of what is there."""
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    if kind == "link":
        path.symlink_to(canary)
    elif kind == "dangling link":
        path.symlink_to("nowhere")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        bind(path)
    elif kind == "directory":
        path.mkdir()
        (path / "within").write_text("x")
    else:
        make_endless(path)


def make_endless(path: Path) -> None:
    """Make a device from which zeros can be read for ever."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("only root makes devices")


def bind(path: Path) -> None:
    """Make a socket; its path may be longer than an address may be."""
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX) as end:
            end.bind(f"/proc/self/fd/{directory}/s")
        os.rename("s", path.name, src_dir_fd=directory, dst_dir_fd=directory)
    finally:
        os.close(directory)


def path_of(tmp_path: Path, number: int) -> Path:
    return tmp_path / "shelf" / "blocks" / name_of(number)[:2] / name_of(number)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_plain_file_is_damage_and_no_block(
    shelf: FileShelf, tmp_path: Path, canary: Path, kind: str
) -> None:
    """It can be removed, but for a directory, and never what a link leads to."""
    plant(path_of(tmp_path, 1), kind, canary)

    with pytest.raises(DamagedError, match="no plain file"):
        shelf.get(name_of(1), arrays(5000))
    with pytest.raises(DamagedError, match="no plain file"):
        shelf.head(name_of(1), 10)
    assert names_of(shelf) == []
    shelf.delete([name_of(1)])

    assert os.path.lexists(path_of(tmp_path, 1)) == (kind == "directory")
    assert canary.read_bytes() == bytes_of(1)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_written_through_what_was_planted(
    shelf: FileShelf, tmp_path: Path, canary: Path, kind: str
) -> None:
    """The put fails, and what is there stays."""
    plant(path_of(tmp_path, 2), kind, canary)

    with pytest.raises(ShelfError, match=r"^file exists$"):
        shelf.put(name_of(2), [b"x" * 5000])

    assert os.path.lexists(path_of(tmp_path, 2))
    assert canary.read_bytes() == bytes_of(1)


def test_other_names_and_other_places_are_no_blocks(shelf: FileShelf, tmp_path: Path) -> None:
    """They are not listed, and stay."""
    here = path_of(tmp_path, 1).parent
    elsewhere = here.with_name("00" if here.name != "00" else "01")
    elsewhere.mkdir()
    planted = [
        here / "notes.txt",
        here / f".{name_of(1)}",
        here / f"{name_of(1)}.tmp",
        here / name_of(1).upper(),
        elsewhere / name_of(1),
        here.parent / name_of(1),
        tmp_path / "shelf" / name_of(1),
    ]
    for path in planted:
        path.write_bytes(bytes_of(1))

    assert names_of(shelf) == [name_of(1)]
    shelf.delete([name_of(1)])
    shelf.close()
    again = FileShelf(tmp_path / "shelf", sync="none")
    assert names_of(again) == []
    again.close()
    assert all(path.exists() for path in planted)


def test_a_pickle_is_bytes_like_any_other(shelf: FileShelf, tmp_path: Path) -> None:
    """Nothing in it is run."""
    data = pickle.dumps(Shell(tmp_path / "run"))
    path_of(tmp_path, 1).write_bytes(data)
    (tmp_path / "shelf" / "namespaces" / ("ab" * 32)).write_bytes(data)

    into = arrays(len(data))
    shelf.get(name_of(1), into)

    assert into[0].tobytes() == data
    assert shelf.descriptions() == {"ab" * 32: data}
    assert not (tmp_path / "run").exists()


def test_a_link_in_place_of_a_directory_of_blocks_is_not_listed(
    shelf: FileShelf, tmp_path: Path
) -> None:
    """Also when it came after the opening."""
    outside = tmp_path / "outside"
    path_of(tmp_path, 1).parent.rename(outside)
    path_of(tmp_path, 1).parent.symlink_to(outside)

    assert names_of(shelf) == []


def test_a_file_in_place_of_a_directory_of_blocks_is_no_block(
    shelf: FileShelf, tmp_path: Path
) -> None:
    """Writing there fails with a reason, and works again when it is gone."""
    directory = path_of(tmp_path, 1).parent
    path_of(tmp_path, 1).unlink()
    directory.rmdir()
    directory.write_text("x")

    with pytest.raises(ShelfError, match=r"^not a directory$"):
        shelf.put(name_of(1), [bytes_of(1)])
    assert names_of(shelf) == []
    shelf.delete([name_of(1)])
    directory.unlink()
    shelf.put(name_of(1), [bytes_of(1)])

    assert is_there(shelf, 1)
