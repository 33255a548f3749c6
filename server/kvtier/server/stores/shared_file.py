"""A file in shared memory that one process holds, and that leaves with it.

The lock is the kernel's, so it ends with the process however that ends. A file whose lock is free
was left behind by a crash. It is unlinked and never reused, since another process may still map it.
"""

import contextlib
import errno
import fcntl
import hashlib
import mmap
import os
import re
import stat
from pathlib import Path

from kvtier.server.stores.base import StoreError
from kvtier.server.stores.memory import available_memory
from kvtier.wire.sizes import format_size

_PREFIX, _SUFFIX = "kvtier-", ".arena"
# Two starts at one moment may each take the other's new file for a stale one.
_ATTEMPTS = 5


def file_name(node_id: str, tier: str) -> str:
    """Return the name of a tier's file: readable, and safe and distinct for any two texts."""
    digest = hashlib.sha256(f"{len(node_id)}:{node_id}{tier}".encode()).hexdigest()[:12]
    readable = (re.sub(r"[^A-Za-z0-9-]", "_", text[:63]) for text in (node_id, tier))
    return f"{_PREFIX}{'-'.join(readable)}-{digest}{_SUFFIX}"


def create(path: Path) -> int:
    """Create a file and lock it, after removing what crashed processes left in its directory.

    Returns:
        The descriptor, which holds the lock.

    Raises:
        StoreError: When another process holds the file, or it cannot be created.
    """
    for _ in range(_ATTEMPTS):
        _remove_stale(path.parent)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            break
        except OSError as error:
            raise StoreError(
                f"{path} cannot be created: {error.strerror}; give a directory that this user may "
                "write to as shm_dir"
            ) from error
        if _lock(descriptor) and _is_named(descriptor, path):
            return descriptor
        os.close(descriptor)
    raise StoreError(
        f"{path} is held by another process or user; stop the other server, or give this one a "
        "node_id of its own"
    )


def allocate(descriptor: int, size: int, directory: Path) -> None:
    """Give a file all of its memory now, so that no later write can find none.

    Raises:
        StoreError: When there is too little, with the needed and the free bytes.
    """
    usage = os.fstatvfs(descriptor)
    free = available_memory()
    # A tmpfs without a limit says that it has no blocks at all.
    if usage.f_blocks:
        free = min(free, usage.f_bavail * usage.f_frsize)
    reason = os.strerror(errno.ENOSPC)
    if size <= free:
        try:
            os.posix_fallocate(descriptor, 0, size)
        except OSError as error:
            reason = os.strerror(error.errno or 0)
        else:
            return
    raise StoreError(
        f"{format_size(size)} are needed in {directory} and {format_size(free)} are free "
        f"({reason}); lower the tier's capacity, or enlarge {directory} (in a container: "
        "--shm-size, or an emptyDir of medium Memory) and the memory limit"
    )


def remove(descriptor: int, path: Path) -> None:
    """Unlink a file that `create` returned, give its memory back, and release it.

    Callers may have it mapped still. What they read from here on is zeros: were the file cut off
    they would be killed, and were its memory kept an idle caller could keep the next node from
    starting.
    """
    if _is_named(descriptor, path):
        path.unlink()
    with contextlib.suppress(OSError, ValueError), mmap.mmap(descriptor, 0) as whole:
        whole.madvise(mmap.MADV_REMOVE)
    os.close(descriptor)


def _remove_stale(directory: Path) -> None:
    for path in directory.glob(f"{_PREFIX}*{_SUFFIX}"):
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            if _is_own(descriptor) and _lock(descriptor):
                remove(descriptor, path)
            else:
                os.close(descriptor)


def _is_own(descriptor: int) -> bool:
    status = os.fstat(descriptor)
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_named(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False
