"""The header of a tier's shared-memory file, and the locks behind its end.

The lock is one of the open file (OFD): it ends when the last descriptor and the last mapping of
that open file are gone, also in children of the process that took it. So a free lock proves that
nobody writes through that mapping any more.
"""

import fcntl
import struct

MAGIC = b"kvtier-1"
COOKIE_BYTES = 32
# A page, so that slots of whole pages lie on pages.
DATA_OFFSET = 4096
_FLOCK = struct.Struct("hhqqi4x")


def make_header(cookie: bytes) -> bytes:
    """Return what a file begins with."""
    return MAGIC + cookie


def lock_byte(descriptor: int, offset: int) -> bool:
    """Take the write lock on one byte of a file open for writing; tell whether it was free."""
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _request(offset))
    except (BlockingIOError, PermissionError):
        return False
    return True


def is_locked(descriptor: int, offset: int) -> bool:
    """Tell whether another open file has a lock on a byte."""
    answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _request(offset))
    kind: int = _FLOCK.unpack(answer)[0]
    return kind != fcntl.F_UNLCK


def _request(offset: int) -> bytes:
    return _FLOCK.pack(fcntl.F_WRLCK, 0, offset, 1, 0)
