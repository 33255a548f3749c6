"""Whole files: written and read in as few steps as the disk takes."""

import errno
import os
from collections.abc import Callable, Sequence

from kvtier.server.lasting.disk import Disk
from kvtier.server.lasting.shelf import DamagedError, MissingError

_MOST_PARTS = os.sysconf("SC_IOV_MAX")
# What opening a link or a socket fails with.
_NO_FILE = frozenset({errno.ELOOP, errno.ENXIO})


def write_new(
    disk: Disk, path: str, parts: Sequence[bytes | memoryview], *, sync: bool = True
) -> None:
    """Write a new file; what is there after a failure is undefined.

    Raises:
        OSError: When it cannot be written, or something is there already.
    """
    file = disk.create(path)
    try:
        if not _move(lambda views, _: disk.write(file, views), parts):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if sync:
            disk.sync(file)
    finally:
        disk.close(file)


def open_plain(disk: Disk, path: str) -> tuple[int, int]:
    """Open a plain file, and return its descriptor and its length.

    Raises:
        MissingError: When there is none.
        DamagedError: When it is something else.
        OSError: When it cannot be opened.
    """
    try:
        file = disk.open(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise MissingError from error
    except OSError as error:
        if error.errno in _NO_FILE:
            raise DamagedError("it is no plain file") from error
        raise
    try:
        length = disk.measure(file)
    except BaseException:
        disk.close(file)
        raise
    if length is None:
        disk.close(file)
        raise DamagedError("it is no plain file")
    return file, length


def read_all(disk: Disk, file: int, parts: Sequence[bytearray | memoryview]) -> None:
    """Fill parts with the bytes from the start of a file on.

    Raises:
        DamagedError: When it has fewer.
        OSError: When it cannot be read.
    """
    if not _move(lambda views, position: disk.read(file, views, position), parts):
        raise DamagedError("it became shorter while it was read")


def read_start(disk: Disk, path: str, most: int) -> tuple[bytes, int]:
    """Return the first bytes of a plain file, and how long all of it is.

    Raises:
        MissingError: When there is none.
        DamagedError: When it is something else.
        OSError: When it cannot be read.
    """
    file, length = open_plain(disk, path)
    try:
        start = bytearray(min(most, length))
        read_all(disk, file, [start])
    finally:
        disk.close(file)
    return bytes(start), length


def _move(
    step: Callable[[Sequence[memoryview], int], int],
    parts: Sequence[bytes | bytearray | memoryview],
) -> bool:
    """Take steps until all parts are through; False when one gets nowhere."""
    views = [memoryview(part).cast("B") for part in parts if len(part)]
    position = 0
    while views:
        moved = step(views[:_MOST_PARTS], position)
        if not moved:
            return False
        position += moved
        views = _without(views, moved)
    return True


def _without(views: list[memoryview], moved: int) -> list[memoryview]:
    for index, view in enumerate(views):
        if moved < view.nbytes:
            return [view[moved:], *views[index + 1 :]]
        moved -= view.nbytes
    return []
