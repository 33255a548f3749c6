"""The operations on files that a shelf is made of."""

import errno
import os
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# A pipe that somebody put there must not make the opening wait.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


# What an operation fails with for want of room.
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def reason_of(error: OSError) -> str:
    """Return why an operation failed, in a few words."""
    return os.strerror(error.errno).lower() if error.errno else "unknown error"


class Entry(NamedTuple):
    """What lies in a directory: a plain file, a directory, or something else, such as a link."""

    name: str
    plain: bool
    directory: bool


class Space(NamedTuple):
    """What a file system gives out: the bytes of its blocks, and how many bytes are free."""

    block: int
    free: int


class Disk(Protocol):
    """A tree of directories and files that is used by paths relative to its root.

    Every method is one operation, may run in several threads at one time, and raises `OSError` when
    it fails. A link at the end of a path is never followed.
    """

    def create(self, path: str) -> int:
        """Make a file where nothing is, and return its descriptor, for writing."""

    def write(self, file: int, parts: Sequence[memoryview]) -> int:
        """Append parts, at most `IOV_MAX`, and return how many bytes of them were written."""

    def sync(self, file: int) -> None:
        """Return when the bytes of a file would outlive a power cut; its name need not."""

    def open(self, path: str) -> int:
        """Return the descriptor of whatever is there, for reading."""

    def read(self, file: int, parts: Sequence[memoryview], position: int) -> int:
        """Fill parts, at most `IOV_MAX`, and return how many bytes came; 0 is the end."""

    def measure(self, file: int) -> int | None:
        """Return the length of a plain file in bytes; None when it is something else."""

    def close(self, file: int) -> None:
        """Give a descriptor back, also when it fails."""

    def exists(self, path: str) -> bool:
        """Tell whether anything is there."""

    def rename(self, old: str, new: str) -> None:
        """Give a file another path, in place of what is there."""

    def unlink(self, path: str) -> None:
        """Remove what is there and is no directory."""

    def entries(self, path: str) -> list[Entry]:
        """Return what lies in a directory."""

    def make_directory(self, path: str) -> None:
        """Make a directory; one that is there already is fine."""

    def sync_directory(self, path: str) -> None:
        """Return when what was made, renamed and removed in a directory would outlive a cut."""

    def space(self) -> Space:
        """Return what the file system gives out."""


class RootedDisk:
    """The machine's own files below one directory, whatever that is called by and by.

    Args:
        root: A descriptor of the directory, open for as long as the disk is used.
    """

    def __init__(self, root: int) -> None:
        self._root = root

    def create(self, path: str) -> int:
        """Make a file where nothing is."""
        return os.open(path, _CREATE, 0o600, dir_fd=self._root)

    def write(self, file: int, parts: Sequence[memoryview]) -> int:
        """Append parts."""
        return os.writev(file, parts)

    def sync(self, file: int) -> None:
        """Flush the bytes and the length of a file."""
        os.fdatasync(file)

    def open(self, path: str) -> int:
        """Open whatever is there."""
        return os.open(path, _READ, dir_fd=self._root)

    def read(self, file: int, parts: Sequence[memoryview], position: int) -> int:
        """Fill parts."""
        return os.preadv(file, parts, position)

    def measure(self, file: int) -> int | None:
        """Return the length of a plain file."""
        status = os.fstat(file)
        return status.st_size if stat.S_ISREG(status.st_mode) else None

    def close(self, file: int) -> None:
        """Give a descriptor back."""
        os.close(file)

    def exists(self, path: str) -> bool:
        """Tell whether anything is there."""
        try:
            os.stat(path, dir_fd=self._root, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def rename(self, old: str, new: str) -> None:
        """Give a file another path."""
        os.rename(old, new, src_dir_fd=self._root, dst_dir_fd=self._root)

    def unlink(self, path: str) -> None:
        """Remove what is there."""
        os.unlink(path, dir_fd=self._root)

    def entries(self, path: str) -> list[Entry]:
        """Return what lies in a directory."""
        descriptor = self._open_directory(path)
        try:
            with os.scandir(descriptor) as found:
                return [
                    Entry(e.name, e.is_file(follow_symlinks=False), e.is_dir(follow_symlinks=False))
                    for e in found
                ]
        finally:
            os.close(descriptor)

    def make_directory(self, path: str) -> None:
        """Make a directory."""
        with suppress(FileExistsError):
            os.mkdir(path, 0o700, dir_fd=self._root)

    def sync_directory(self, path: str) -> None:
        """Flush a directory."""
        descriptor = self._open_directory(path)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def space(self) -> Space:
        """Return what the file system gives out."""
        usage = os.fstatvfs(self._root)
        # A tmpfs without a limit says that it has no blocks at all.
        free = usage.f_bavail * usage.f_frsize if usage.f_blocks else sys.maxsize
        return Space(usage.f_frsize, free)

    def _open_directory(self, path: str) -> int:
        return os.open(path or ".", _DIRECTORY, dir_fd=self._root)
