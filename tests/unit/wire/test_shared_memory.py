"""The locks by which a node sees that nobody writes through a mapping any more."""

import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvtier.wire.shared_memory import is_locked, lock_byte

BYTE = 5000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file shorter than the byte that is locked."""
    path = tmp_path / "file"
    path.write_bytes(bytes(4096))
    return path


@pytest.fixture
def server(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR)
    yield descriptor
    os.close(descriptor)


def test_a_lock_behind_the_end_is_seen_until_its_file_is_closed(path: Path, server: int) -> None:
    """Only the byte that was named is locked, and asking changes nothing."""
    client = os.open(path, os.O_RDWR)

    assert lock_byte(client, BYTE)
    seen = [is_locked(server, BYTE) for _ in range(2)], is_locked(server, BYTE + 1)
    os.close(client)

    assert seen == ([True, True], False)
    assert not is_locked(server, BYTE)


def test_one_open_file_at_a_time_has_a_lock(path: Path) -> None:
    """The second is told at once."""
    one, other = os.open(path, os.O_RDWR), os.open(path, os.O_RDWR)
    try:
        assert lock_byte(one, BYTE)
        assert not lock_byte(other, BYTE)
        assert lock_byte(other, BYTE + 1)
    finally:
        os.close(one)
        os.close(other)


def test_a_lock_lasts_as_long_as_a_mapping(path: Path, server: int) -> None:
    """Who has closed the file and still has it mapped can still write."""
    client = os.open(path, os.O_RDWR)
    lock_byte(client, BYTE)
    mapping = mmap.mmap(client, 4096)
    os.close(client)

    mapped = is_locked(server, BYTE)
    mapping.close()

    assert mapped
    assert not is_locked(server, BYTE)


def test_closing_another_descriptor_of_the_file_keeps_the_lock(path: Path, server: int) -> None:
    """Unlike a lock of the whole process."""
    client = os.open(path, os.O_RDWR)
    lock_byte(client, BYTE)
    os.close(os.open(path, os.O_RDONLY))

    assert is_locked(server, BYTE)
    os.close(client)


def test_a_child_that_has_the_file_keeps_the_lock(path: Path, server: int) -> None:
    """It could write too."""
    client = os.open(path, os.O_RDWR)
    lock_byte(client, BYTE)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    os.close(client)

    with_child = is_locked(server, BYTE)
    os.close(writing)
    os.waitpid(child, 0)
    os.close(reading)

    assert with_child
    assert not is_locked(server, BYTE)
