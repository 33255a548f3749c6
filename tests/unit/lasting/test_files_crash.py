"""Whatever fails or ends in the middle, a block is whole or not there."""

import errno
import random
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Literal, get_args

import pytest

from kvtier.server.lasting.disk import Disk, RootedDisk
from kvtier.server.lasting.files import FileShelf
from kvtier.server.lasting.shelf import ShelfError
from kvtier.server.stores.base import StoreError
from tests.unit.lasting.faulty_disk import FAULTS, Crash, Fault, FaultyDisk, fine
from tests.unit.lasting.power_cut_disk import PowerCutDisk
from tests.unit.lasting.shelving import bytes_of, is_there, name_of, names_of, read

Sync = Literal["none", "close", "always"]
SYNCS = get_args(Sync)
FINGERPRINT = "0f" * 32


class Broken:
    """A shelf on a disk that fails as told; the operations of its opening are not counted."""

    def __init__(self, root: Path, sync: Sync) -> None:
        self.shelf = FileShelf(root, sync=sync, disk=self._attach)
        self.disk.operations.clear()

    def _attach(self, root: int) -> FaultyDisk:
        self.disk = FaultyDisk(RootedDisk(root))
        return self.disk


def operations_of(root: Path, sync: Sync, act: Callable[[FileShelf], object]) -> list[str]:
    """Return what the disk has to do for something."""
    broken = Broken(root, sync)
    act(broken.shelf)
    broken.shelf.close()
    return broken.disk.operations


def put(shelf: FileShelf) -> None:
    shelf.put(name_of(1), [bytes_of(1)[:100], memoryview(bytes_of(1))[100:]])


def assert_nothing_partial(root: Path) -> None:
    assert list((root / "partial").iterdir()) == []


@pytest.mark.parametrize("sync", SYNCS)
def test_a_crash_in_any_step_of_a_put_leaves_a_whole_block_or_none(
    tmp_path: Path, sync: Sync
) -> None:
    """And nothing unfinished, once the shelf was opened again."""
    steps = operations_of(tmp_path / "whole", sync, put)
    found = []
    for step in range(len(steps)):
        root = tmp_path / str(step)
        broken = Broken(root, sync)
        broken.disk.crash_at = step
        with pytest.raises(Crash):
            put(broken.shelf)
        broken.shelf.close()

        again = FileShelf(root, sync=sync)
        found.append(is_there(again, 1))
        assert_nothing_partial(root)
        assert names_of(again) == [name_of(1)] * found[-1]
        again.close()

    # It is the renaming that puts it there: never before, and always after.
    last = len(steps) - steps[::-1].index("rename")
    assert found == [False] * last + [True] * (len(steps) - last)


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("sync", SYNCS)
def test_a_fault_in_any_step_of_a_put_leaves_nothing(
    tmp_path: Path, sync: Sync, done: bool
) -> None:
    """Neither at once nor later, also when the step had its effect; the next put is fine."""
    steps = operations_of(tmp_path / "whole", sync, put)
    for step, operation in enumerate(steps):
        root = tmp_path / f"{step}"
        broken = Broken(root, sync)
        code = FAULTS[step % len(FAULTS)]
        broken.disk.plan = _at(step, Fault(code, done))
        with pytest.raises(ShelfError):
            put(broken.shelf)

        assert names_of(broken.shelf) == [], operation
        assert_nothing_partial(root)
        broken.shelf.put(name_of(2), [bytes_of(2)])
        assert is_there(broken.shelf, 2)
        broken.shelf.close()


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (errno.ENOSPC, "no space left on device"),
        (errno.EIO, "input/output error"),
        (errno.EACCES, "permission denied"),
        (errno.EROFS, "read-only file system"),
        (errno.EDQUOT, "disk quota exceeded"),
    ],
)
def test_the_reason_is_told_in_the_words_of_the_system(
    tmp_path: Path, code: int, reason: str
) -> None:
    """Of every operation, without a path."""
    broken = Broken(tmp_path, "always")
    put(broken.shelf)
    broken.disk.plan = lambda operation, number: Fault(code)

    for act in (
        lambda: broken.shelf.put(name_of(2), [b"x"]),
        lambda: read(broken.shelf, name_of(1), 5000),
        lambda: broken.shelf.head(name_of(1), 1),
        lambda: broken.shelf.delete([name_of(1)]),
        lambda: names_of(broken.shelf),
        lambda: broken.shelf.describe(FINGERPRINT, b"x"),
        broken.shelf.descriptions,
        lambda: broken.shelf.forget(FINGERPRINT),
        lambda: broken.shelf.probe(1),
    ):
        with pytest.raises(ShelfError) as raised:
            act()
        assert str(raised.value) == reason
    broken.shelf.close()


def test_what_could_not_be_removed_is_removed_later(tmp_path: Path) -> None:
    """When a disk fails altogether, and works again; a probe tells that it does not yet."""
    broken = Broken(tmp_path, "always")
    broken.disk.plan = lambda operation, number: (
        Fault(errno.EIO) if operation in {"sync_directory", "unlink"} else None
    )
    with pytest.raises(ShelfError):
        put(broken.shelf)
    with pytest.raises(ShelfError):
        broken.shelf.probe(1)
    stuck = names_of(broken.shelf)
    broken.disk.plan = fine
    broken.shelf.probe(1)

    assert stuck == [name_of(1)]
    assert names_of(broken.shelf) == []
    assert_nothing_partial(tmp_path)
    broken.shelf.close()


def test_a_put_removes_what_was_left_too(tmp_path: Path) -> None:
    """Shelves are not probed while all seems well."""
    broken = Broken(tmp_path, "none")
    broken.disk.plan = lambda operation, number: (
        Fault(errno.ENOSPC) if operation in {"write", "unlink"} else None
    )
    with pytest.raises(ShelfError):
        put(broken.shelf)
    stuck = len(list((tmp_path / "partial").iterdir()))
    broken.disk.plan = fine
    broken.shelf.put(name_of(2), [b"x"])

    assert stuck == 1
    assert_nothing_partial(tmp_path)
    broken.shelf.close()


@pytest.mark.parametrize("done", [False, True])
def test_a_fault_in_any_step_of_a_probe_is_told_and_leaves_nothing(
    tmp_path: Path, done: bool
) -> None:
    """Once a later probe succeeds."""
    steps = operations_of(tmp_path / "whole", "none", lambda shelf: shelf.probe(5000))
    for step in range(len(steps)):
        broken = Broken(tmp_path / str(step), "none")
        broken.disk.plan = _at(step, Fault(errno.EIO, done))
        # What could not be removed at once may be removed a moment later, which is fine.
        if steps[step] != "unlink":
            with pytest.raises(ShelfError):
                broken.shelf.probe(5000)
        broken.shelf.probe(5000)
        assert_nothing_partial(tmp_path / str(step))
        broken.shelf.close()


def test_a_crash_in_any_step_of_a_description_leaves_the_old_or_the_new_one(
    tmp_path: Path,
) -> None:
    """Never a part of one."""
    steps = operations_of(
        tmp_path / "whole", "always", lambda shelf: shelf.describe(FINGERPRINT, b"new")
    )
    found: list[bytes] = []
    for step in range(len(steps)):
        root = tmp_path / str(step)
        broken = Broken(root, "always")
        broken.shelf.describe(FINGERPRINT, b"old")
        broken.disk.crash_at = len(broken.disk.operations) + step
        with pytest.raises(Crash):
            broken.shelf.describe(FINGERPRINT, b"new")
        broken.shelf.close()

        again = FileShelf(root, sync="none")
        found += again.descriptions().values()
        again.close()

    assert len(found) == len(steps)
    assert set(found) == {b"old", b"new"}


def test_a_crash_in_any_step_of_the_first_opening_does_no_harm(tmp_path: Path) -> None:
    """Also when the power is gone with it: the next opening finishes what was begun."""
    whole = FaultyDisk(PowerCutDisk())
    _open(tmp_path, whole).close()

    for step, seed in product(range(len(whole.operations)), range(5)):
        disk = PowerCutDisk()
        with pytest.raises(Crash):
            _open(tmp_path, FaultyDisk(disk, crash_at=step))
        disk.cut(random.Random(seed))
        shelf = _open(tmp_path, disk)
        put(shelf)
        shelf.close()


def test_a_fault_in_any_step_of_the_opening_is_told_and_lets_the_directory_go(
    tmp_path: Path,
) -> None:
    """The next opening has the lock."""
    whole = FaultyDisk(PowerCutDisk())
    _open(tmp_path, whole).close()

    for step in range(len(whole.operations)):
        disk = PowerCutDisk()
        faulty = FaultyDisk(disk, _at(step, Fault(errno.EIO)))
        with pytest.raises(StoreError, match=r" cannot be used: input/output error; repair"):
            _open(tmp_path, faulty)
        _open(tmp_path, disk).close()


def test_a_full_disk_does_not_keep_a_shelf_from_opening(tmp_path: Path) -> None:
    """Its blocks can be read, and removed for others."""
    shelf = FileShelf(tmp_path, sync="none")
    put(shelf)
    shelf.close()

    def fill(root: int) -> FaultyDisk:
        full = Fault(errno.ENOSPC)
        return FaultyDisk(RootedDisk(root), lambda name, _: full if name == "create" else None)

    again = FileShelf(tmp_path, sync="none", disk=fill)

    assert is_there(again, 1)
    again.delete([name_of(1)])
    with pytest.raises(ShelfError, match="no space"):
        again.probe(1)
    again.close()


def _at(step: int, fault: Fault) -> Callable[[str, int], Fault | None]:
    return lambda operation, number: fault if number == step else None


def _open(root: Path, disk: Disk) -> FileShelf:
    return FileShelf(root, sync="none", disk=lambda _: disk)
