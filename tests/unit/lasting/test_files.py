"""A shelf of files keeps whole blocks, and nothing but blocks."""

import errno
import os
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kvtier.server.lasting.disk import RootedDisk
from kvtier.server.lasting.files import FileShelf
from kvtier.server.lasting.shelf import DamagedError, MissingError, ShelfError
from tests.unit.lasting.faulty_disk import FaultyDisk
from tests.unit.lasting.power_cut_disk import PowerCutDisk
from tests.unit.lasting.shelving import (
    arrays,
    bytes_of,
    cut_up,
    is_there,
    name_of,
    names_of,
    read,
)

FINGERPRINT = "0f" * 32


@pytest.mark.parametrize("sync", ["none", "close", "always"])
@pytest.mark.parametrize(
    "lengths",
    [[152], [152, 1], [1, 0, 4095, 2], [152, 1 << 20], [3] * 2500],
    ids=["header", "odd", "empty-part", "large", "more-than-one-call-takes"],
)
def test_what_was_put_is_got(root: Path, sync: str, lengths: list[int]) -> None:
    """Byte for byte, in parts of other lengths too, also after the shelf was opened anew."""
    data, other = bytes_of(1, sum(lengths)), arrays(*reversed(lengths))
    shelf = FileShelf(root, sync=sync)  # type: ignore[arg-type]
    shelf.put(name_of(1), cut_up(data, lengths))
    shelf.get(name_of(1), other)
    shelf.close()
    shelf = FileShelf(root, sync="none")

    assert b"".join(part.tobytes() for part in other) == data
    assert read(shelf, name_of(1), len(data)) == data
    assert names_of(shelf) == [name_of(1)]
    shelf.close()


def test_writes_and_reads_that_come_by_pieces_are_finished(root: Path) -> None:
    """A disk may take or give fewer bytes than it was asked to, in the middle of a part too."""
    disks = []

    def slow(descriptor: int) -> FaultyDisk:
        disks.append(FaultyDisk(RootedDisk(descriptor)))
        disks[0].most_bytes = 7
        return disks[0]

    shelf = FileShelf(root, sync="none", disk=slow)
    shelf.put(name_of(1), cut_up(bytes_of(1, 300), [150, 3, 147]))

    assert read(shelf, name_of(1), 300) == bytes_of(1, 300)
    assert disks[0].operations.count("write") > 300 // 7
    shelf.close()


def test_nobody_else_may_look(shelf: FileShelf, root: Path) -> None:
    """Blocks are made of prompts."""
    shelf.put(name_of(1), [b"x"])
    shelf.describe(FINGERPRINT, b"x")

    modes = {stat.S_IMODE(path.stat().st_mode) for path in [root, *root.rglob("*")]}
    assert modes == {0o700, 0o600}


def test_what_is_not_there_is_missing(shelf: FileShelf, root: Path) -> None:
    """Also when its directory never was, or went meanwhile."""
    shelf.put(name_of(1), [b"x"])
    where = root / "blocks" / name_of(1)[:2]
    (where / name_of(1)).unlink()
    where.rmdir()

    for number in (1, 2):
        with pytest.raises(MissingError):
            shelf.get(name_of(number), arrays(1))
        with pytest.raises(MissingError):
            shelf.head(name_of(number), 1)
    assert names_of(shelf) == []
    shelf.delete([name_of(1), name_of(2)])


@pytest.mark.parametrize("sync", ["none", "always"])
def test_directories_that_went_are_made_again(root: Path, sync: str) -> None:
    """As when somebody removed all that is in there."""
    shelf = FileShelf(root, sync=sync)  # type: ignore[arg-type]
    for name in ("blocks", "partial", "namespaces"):
        (root / name).rmdir()

    shelf.put(name_of(1), [bytes_of(1)])
    shelf.describe(FINGERPRINT, b"x")

    assert is_there(shelf, 1)
    assert shelf.descriptions() == {FINGERPRINT: b"x"}
    shelf.close()


@pytest.mark.parametrize("length", [0, 99, 101])
def test_another_length_is_damage(shelf: FileShelf, root: Path, length: int) -> None:
    """A file that was cut short or appended to is not taken for the block."""
    shelf.put(name_of(1), [bytes(100)])
    os.truncate(root / "blocks" / name_of(1)[:2] / name_of(1), length)

    with pytest.raises(DamagedError, match=rf"^it has {length} bytes and should have 100$"):
        shelf.get(name_of(1), arrays(60, 40))


def test_a_file_that_is_cut_short_while_it_is_read_is_damage(tmp_path: Path) -> None:
    """The read ends; it does not wait for more."""

    class Shrinking(PowerCutDisk):
        def measure(self, file: int) -> int | None:
            length = super().measure(file)
            return None if length is None else length + 1

    disk = Shrinking()
    shelf = FileShelf(tmp_path, sync="none", disk=disk.attach)
    shelf.put(name_of(1), [bytes(100)])

    with pytest.raises(DamagedError, match="shorter"):
        shelf.get(name_of(1), arrays(101))
    shelf.close()


def test_the_head_is_read_alone(shelf: FileShelf) -> None:
    """With the length of the whole; a short block is all head."""
    shelf.put(name_of(1), [bytes_of(1)])
    shelf.put(name_of(2), [b"abc"])

    assert shelf.head(name_of(1), 1024) == (bytes_of(1)[:1024], 5000)
    assert shelf.head(name_of(2), 1024) == (b"abc", 3)


def test_a_name_is_used_once(shelf: FileShelf) -> None:
    """A second write neither changes nor removes the block."""
    shelf.put(name_of(1), [bytes_of(1)])

    with pytest.raises(ShelfError, match=r"^file exists$"):
        shelf.put(name_of(1), [b"other"])

    assert is_there(shelf, 1)


def test_deleted_blocks_are_gone_and_others_stay(shelf: FileShelf) -> None:
    """Deleting again does nothing."""
    for number in range(5):
        shelf.put(name_of(number), [bytes_of(number)])

    shelf.delete([name_of(number) for number in (1, 3, 9)])
    shelf.delete([name_of(1)])

    assert [is_there(shelf, number) for number in range(5)] == [True, False, True, False, True]


def test_names_come_in_batches(tmp_path: Path) -> None:
    """Each name once, a few thousand at most at a time."""
    shelf = FileShelf(tmp_path, sync="none", disk=PowerCutDisk().attach)
    names = {name_of(number) for number in range(5000)}
    for name in names:
        shelf.put(name, [])

    batches = list(shelf.names())

    assert [len(batch) for batch in batches] == [4096, 904]
    assert {name for batch in batches for name in batch} == names
    shelf.close()


@pytest.mark.parametrize(
    "name",
    ["", "..", "../../x", name_of(1).upper(), name_of(1) + "\n", name_of(1)[:-1], f"/{name_of(1)}"],
)
def test_a_name_that_is_none_is_refused(shelf: FileShelf, name: str) -> None:
    """Before anything is done with it."""
    with pytest.raises(ValueError, match="no name of a block"):
        shelf.put(name, [b"x"])
    with pytest.raises(ValueError, match="no name of a block"):
        shelf.get(name, arrays(1))
    with pytest.raises(ValueError, match="no name of a block"):
        shelf.head(name, 1)
    with pytest.raises(ValueError, match="no name of a block"):
        shelf.delete([name])


def test_a_probe_leaves_nothing(shelf: FileShelf, root: Path) -> None:
    """However long the blocks are."""
    before = sorted(root.rglob("*"))

    for length in (0, 1, 2 << 20, 9 << 20):
        shelf.probe(length)

    assert sorted(root.rglob("*")) == before


def test_a_probe_tells_that_there_is_no_room(tmp_path: Path) -> None:
    """For a whole block, not for what the probe writes."""
    disk = PowerCutDisk()
    shelf = FileShelf(tmp_path, sync="none", disk=disk.attach)
    disk.free = (20 << 20) - 1

    with pytest.raises(ShelfError, match=r"^no space left on device$"):
        shelf.probe(20 << 20)
    disk.free += 1
    shelf.probe(20 << 20)
    shelf.close()


def test_a_block_costs_whole_blocks_of_the_file_system(shelf: FileShelf) -> None:
    """A byte costs as much as the first block of the file system."""
    block = shelf.cost(1)

    assert block >= 4096
    assert [shelf.cost(length) for length in (0, block, block + 1)] == [0, block, 2 * block]


def test_a_closed_shelf_does_nothing(shelf: FileShelf) -> None:
    """Closing again is harmless."""
    shelf.put(name_of(1), [b"x"])
    shelf.close()
    shelf.close()

    with pytest.raises(ShelfError, match="closed"):
        shelf.get(name_of(1), arrays(1))
    with pytest.raises(ShelfError, match="closed"):
        shelf.put(name_of(2), [b"x"])
    with pytest.raises(ShelfError, match="closed"):
        names_of(shelf)


def test_a_write_that_was_under_way_when_the_shelf_was_closed_leaves_nothing(
    tmp_path: Path,
) -> None:
    """The directory may be another process's by then."""
    disk = FaultyDisk(PowerCutDisk())
    shelf = FileShelf(tmp_path, sync="close", disk=lambda root: disk)

    def close_then(operation: str, number: int) -> None:
        if operation == "sync":
            shelf.close()

    disk.plan = close_then
    with pytest.raises(ShelfError, match="closed"):
        shelf.put(name_of(1), [b"x"])

    again = FileShelf(tmp_path, sync="none", disk=lambda root: disk)
    assert names_of(again) == []
    assert disk.entries("partial") == []
    again.close()


def test_many_threads_may_use_it_at_once(root: Path) -> None:
    """Each has its own blocks; directories are made for all of them."""
    shelf = FileShelf(root, sync="always")

    def use(worker: int) -> int:
        numbers = range(worker * 30, worker * 30 + 30)
        for number in numbers:
            shelf.put(name_of(number), [bytes_of(number)])
        shelf.delete([name_of(number) for number in numbers[::2]])
        return sum(is_there(shelf, number) for number in numbers)

    with ThreadPoolExecutor(6) as threads:
        left = list(threads.map(use, range(6)))

    assert left == [15] * 6
    assert len(names_of(shelf)) == 90
    assert list((root / "partial").iterdir()) == []
    shelf.close()


@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors in /proc")
def test_no_descriptor_is_left_open(root: Path) -> None:
    """By no operation, whether it succeeds or fails, nor by the shelf when it is closed."""

    def count() -> int:
        return sum(1 for _ in Path("/proc/self/fd").iterdir())

    before = count()
    shelf = FileShelf(root, sync="always")
    shelf.put(name_of(1), [b"x"])
    with pytest.raises(DamagedError):
        shelf.get(name_of(1), arrays(2))
    with pytest.raises(ShelfError, match=os.strerror(errno.EEXIST).lower()):
        shelf.put(name_of(1), [b"x"])
    assert names_of(shelf) == [name_of(1)]
    shelf.close()
    del shelf

    assert count() == before


def test_a_block_that_is_wanted_no_more_gets_no_name(shelf: FileShelf, tmp_path: Path) -> None:
    """Who gave up a write may have changed its bytes: nothing of it stays."""
    with pytest.raises(ShelfError, match="given up"):
        shelf.put(name_of(1), [bytes_of(1)], lambda: False)

    assert names_of(shelf) == []
    assert not list(tmp_path.glob("**/partial/*"))
