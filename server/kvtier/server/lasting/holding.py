"""Holding the directory of a shelf, so that no other process uses it.

The lock is the kernel's, so it ends with the process however that ends.
"""

import errno
import fcntl
import os
import re
import threading
from contextlib import suppress
from pathlib import Path

from kvtier.server.lasting.disk import reason_of
from kvtier.server.lasting.layout import LOCK
from kvtier.server.lasting.shelf import ShelfError
from kvtier.server.stores.base import StoreError

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_LOCK = os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_ADVICE = {
    errno.EACCES: "give a directory that this user may read and write",
    errno.EPERM: "give a directory that this user may read and write",
    errno.EROFS: "mount it for writing, or give another directory",
    errno.ENOTDIR: "give a directory",
    errno.ENOENT: "make the directory above it first",
}


def unusable(directory: Path, error: OSError) -> StoreError:
    """Return what to say of a directory that cannot be used."""
    advice = _ADVICE.get(error.errno or 0, "repair its file system, or give another directory")
    return StoreError(f"{directory} cannot be used: {reason_of(error)}; {advice}")


def open_root(directory: Path) -> int:
    """Return a descriptor of a directory, which is made when only it is missing.

    Raises:
        StoreError: When the path is not absolute.
        OSError: When it cannot be opened.
    """
    if not directory.is_absolute():
        raise StoreError(f"{directory} is not an absolute path; give one that begins with /")
    made = False
    with suppress(FileExistsError):
        directory.mkdir(0o700)
        made = True
    root = os.open(directory, _DIRECTORY)
    if made:
        _sync_parent(directory)
    return root


class Hold:
    """The lock on a shelf's directory.

    Args:
        root: A descriptor of the directory.
        directory: Its path, for messages.

    Raises:
        StoreError: When another process has it.
        OSError: When the lock file cannot be opened.
    """

    def __init__(self, root: int, directory: Path) -> None:
        self._root = root
        self._closing = threading.Lock()
        self._file: int | None = None
        try:
            self._file = _lock(root)
        except BlockingIOError as error:
            raise StoreError(
                f"{directory} is held by another process{_holder(root)}; stop that server, or give "
                "this tier a directory of its own"
            ) from error

    def sign(self) -> None:
        """Write down which process has the directory, for the message of one that wants it."""
        with suppress(OSError):  # it is only a help, and the disk may be full
            file = _open_lock(self._root, os.O_WRONLY | os.O_TRUNC)
            try:
                os.write(file, f"{os.getpid()}\n".encode())
            finally:
                os.close(file)

    def keep(self) -> None:
        """Find out whether the directory is still held, and hold it anew when its lock was removed.

        Raises:
            ShelfError: When another process has it by now, or it was removed as a whole.
            OSError: When the lock file cannot be opened.
        """
        with self._closing:
            if self._file is None or self._is_there(self._file):
                return
            try:
                file = _lock(self._root)
            except BlockingIOError as error:
                raise ShelfError("another process has its directory") from error
            except FileNotFoundError as error:
                raise ShelfError("its directory was removed: start the node again") from error
            os.close(self._file)
            self._file = file
        self.sign()

    def _is_there(self, file: int) -> bool:
        try:
            there = os.stat(LOCK, dir_fd=self._root, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return os.path.samestat(there, os.fstat(file))

    def release(self) -> None:
        """Let others have the directory; again does nothing."""
        with self._closing:
            if self._file is not None:
                # Closing alone does not unlock while a forked child has the descriptor too.
                fcntl.flock(self._file, fcntl.LOCK_UN)
                os.close(self._file)
                self._file = None


def _lock(root: int) -> int:
    try:
        # Open for reading alone it keeps nobody from mounting the file system read-only.
        return _lock_as(root, os.O_RDONLY)
    except OSError as error:
        if error.errno != errno.EBADF:
            raise
        # NFS locks only what is open for writing.
        return _lock_as(root, os.O_RDWR)


def _lock_as(root: int, mode: int) -> int:
    file = _open_lock(root, mode)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(file)
        raise
    return file


def _open_lock(root: int, mode: int) -> int:
    return os.open(LOCK, _LOCK | mode, 0o600, dir_fd=root)


def _holder(root: int) -> str:
    file = _open_lock(root, os.O_RDONLY)
    try:
        found = re.match(rb"[0-9]{1,10}\n", os.pread(file, 32, 0))
    finally:
        os.close(file)
    return f" ({found[0].decode().strip()})" if found else ""


def _sync_parent(directory: Path) -> None:
    # To make a directory one need not be allowed to read the one above.
    with suppress(PermissionError):
        parent = os.open(directory.parent, _DIRECTORY)
        try:
            os.fsync(parent)
        finally:
            os.close(parent)
