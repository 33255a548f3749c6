"""After a power cut a shelf of files has what its setting promises."""

import errno
import random
from pathlib import Path
from typing import Literal

import pytest

from kvtier.server.lasting.files import FileShelf
from kvtier.server.lasting.shelf import DamagedError, MissingError, ShelfError
from tests.unit.lasting.faulty_disk import Crash, Fault, FaultyDisk, fine
from tests.unit.lasting.power_cut_disk import PowerCutDisk
from tests.unit.lasting.shelving import bytes_of, is_there, name_of, names_of, read

Sync = Literal["none", "close", "always"]
SEEDS = range(60)


def run_until_cut(root: Path, sync: Sync, seed: int) -> tuple[PowerCutDisk, set[int], set[int]]:
    """Put and delete at random until the process crashes; return what was acknowledged.

    Returns:
        The disk after a power cut, the blocks that were put, and those that were deleted.
    """
    choose = random.Random(seed)
    disk = PowerCutDisk()
    faulty = FaultyDisk(disk, crash_at=30 + choose.randrange(200))
    shelf = FileShelf(root, sync=sync, disk=lambda _: faulty)
    there: set[int] = set()
    gone: set[int] = set()
    number = 0
    try:
        while True:
            if there and choose.random() < 0.3:
                victim = choose.choice(sorted(there))
                there.discard(victim)
                shelf.delete([name_of(victim)])
                gone.add(victim)
            else:
                number += 1
                shelf.put(name_of(number), [bytes_of(number)])
                there.add(number)
    except Crash:
        shelf.close()
    disk.cut(choose)
    return disk, there, gone


@pytest.mark.parametrize("seed", SEEDS)
def test_always_after_a_power_cut_what_was_stored_is_there_and_what_was_deleted_is_not(
    tmp_path: Path, seed: int
) -> None:
    """Every block whose put returned; the one that was under way is whole or gone."""
    disk, there, gone = run_until_cut(tmp_path, "always", seed)

    shelf = FileShelf(tmp_path, sync="always", disk=disk.attach)
    assert all(is_there(shelf, number) for number in there)
    assert not any(is_there(shelf, number) for number in gone)
    assert len(names_of(shelf)) <= len(there) + 1
    shelf.close()


@pytest.mark.parametrize("seed", range(10))
def test_always_a_delete_that_failed_and_was_repeated_lasts(tmp_path: Path, seed: int) -> None:
    """Though the second time there was nothing to remove."""
    disk = PowerCutDisk()
    faulty = FaultyDisk(disk)
    shelf = FileShelf(tmp_path, sync="always", disk=lambda _: faulty)
    shelf.put(name_of(1), [bytes_of(1)])
    faulty.plan = lambda name, _: Fault(errno.EIO) if name == "sync_directory" else None
    with pytest.raises(ShelfError):
        shelf.delete([name_of(1)])
    faulty.plan = fine
    shelf.delete([name_of(1)])
    shelf.close()
    disk.cut(random.Random(seed))

    again = FileShelf(tmp_path, sync="always", disk=disk.attach)
    assert names_of(again) == []
    again.close()


@pytest.mark.parametrize("seed", range(10))
def test_always_a_block_in_a_directory_that_was_made_again_lasts(tmp_path: Path, seed: int) -> None:
    """After somebody removed the one that was known to last."""
    disk = PowerCutDisk()
    shelf = FileShelf(tmp_path, sync="always", disk=disk.attach)
    shelf.put(name_of(1), [bytes_of(1)])
    shelf.delete([name_of(1)])
    disk.remove_tree("blocks")
    shelf.put(name_of(1), [bytes_of(1)])
    shelf.close()
    disk.cut(random.Random(seed))

    again = FileShelf(tmp_path, sync="always", disk=disk.attach)
    assert is_there(again, 1)
    again.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_close_after_a_power_cut_each_block_is_whole_or_gone(tmp_path: Path, seed: int) -> None:
    """Also those that were deleted, which may be back."""
    disk, there, gone = run_until_cut(tmp_path, "close", seed)

    shelf = FileShelf(tmp_path, sync="close", disk=disk.attach)
    known = {name_of(number) for number in range(len(there) + len(gone) + 3)}
    found = [number for number in range(len(known)) if is_there(shelf, number)]
    assert sorted(names_of(shelf)) == sorted(map(name_of, found))
    shelf.close()


def test_close_may_lose_blocks_in_a_power_cut(tmp_path: Path) -> None:
    """Which is why there is always; a test of the disk of these tests."""
    lost = 0
    for seed in SEEDS:
        disk, there, _ = run_until_cut(tmp_path, "close", seed)
        shelf = FileShelf(tmp_path, sync="close", disk=disk.attach)
        lost += sum(not is_there(shelf, number) for number in there)
        shelf.close()

    assert lost


def test_none_may_lose_and_spoil_blocks_in_a_power_cut(tmp_path: Path) -> None:
    """The shelf can be used all the same; what reads them has their checksums."""
    outcomes: set[str] = set()
    for seed in SEEDS:
        disk, there, _ = run_until_cut(tmp_path, "none", seed)
        shelf = FileShelf(tmp_path, sync="none", disk=disk.attach)
        outcomes |= {_outcome(shelf, number) for number in there}
        shelf.put(name_of(9999), [bytes_of(9999)])
        shelf.close()

    assert outcomes == {"whole", "spoilt", "short", "gone"}


def _outcome(shelf: FileShelf, number: int) -> str:
    try:
        found = read(shelf, name_of(number), 5000)
    except MissingError:
        return "gone"
    except DamagedError:
        return "short"
    return "whole" if found == bytes_of(number) else "spoilt"
