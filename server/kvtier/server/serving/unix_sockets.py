"""Listening on a socket of the file system: alone, and for the node's user and group only.

gRPC deletes whatever socket it finds at a path, also one that a server listens on, and lets anybody
connect whom the process's umask does not keep out.
"""

import errno
import os
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, flock
from pathlib import Path

from kvtier.server.config.addresses import unix_path
from kvtier.server.serving.starting import StartError

_MODE = 0o660
# Others are denied everything. It goes for whatever threads make meanwhile: no more than that.
_UMASK = 0o007
_PROBE_SECONDS = 1.0


def bind_socket(bind: Callable[[str], int], endpoint: str, setting: str) -> None:
    """Bind a server to a socket, which only the node's user and group may connect to.

    A socket that nobody listens on any more is taken over; one that somebody listens on, and
    anything else at the path, is left as it is.

    Args:
        bind: Binds a server to an address; raises RuntimeError when that fails.
        endpoint: unix:/PATH.
        setting: Where the endpoint is from.

    Raises:
        StartError: When it cannot be bound.
    """
    path = unix_path(endpoint)
    try:
        with _turn(path.parent):
            why = _occupied(path)
            if why:
                raise StartError(
                    f"cannot listen on {endpoint}: {why}, or choose another path with {setting}"
                )
            _bind(bind, endpoint)
            path.chmod(_MODE)
    except OSError as error:
        raise StartError(_told(endpoint, path, error, setting)) from None


def remove_socket(endpoint: str) -> None:
    """Remove the socket of a server that has stopped."""
    with suppress(OSError):
        path = unix_path(endpoint)
        with _turn(path.parent):
            if not _listened_to(path):
                path.unlink()


@contextmanager
def _turn(folder: Path) -> Iterator[None]:
    """Have a directory to oneself, among servers that start and stop."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        flock(descriptor, LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _occupied(path: Path) -> str:
    """Return why a path cannot be had, and what to do; nothing when it can."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return ""
    if not stat.S_ISSOCK(mode):
        return "something is there that is no socket; remove it"
    if _listened_to(path):
        return "a server listens there; stop it"
    path.unlink()
    return ""


def _listened_to(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_SECONDS)
        try:
            probe.connect(str(path))
        except OSError as error:
            # Any other failure is no sign that nobody is there.
            return error.errno not in {errno.ECONNREFUSED, errno.ENOENT}
    return True


def _bind(bind: Callable[[str], int], endpoint: str) -> None:
    before = os.umask(_UMASK)
    try:
        bind(endpoint)
    except RuntimeError as error:
        raise OSError(errno.EADDRINUSE, str(error)) from None
    finally:
        os.umask(before)


def _told(endpoint: str, path: Path, error: OSError, setting: str) -> str:
    if error.errno in {errno.ENOENT, errno.ENOTDIR}:
        todo = f"{path.parent} is no directory; make it"
    else:
        todo = f"{(error.strerror or str(error)).lower()}; let the node's user write there"
    return f"cannot listen on {endpoint}: {todo}, or choose another path with {setting}"
