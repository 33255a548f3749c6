"""A host tier's shared-memory file, mapped into this process."""

import ctypes
import mmap
import os
import stat
from contextlib import suppress
from pathlib import Path

from kvtier.client.mapped.populate import Populating
from kvtier.v1.mapping_pb2 import SharedFile
from kvtier.wire.shared_memory import lock_byte, make_header

DEFAULT_DIRECTORY = Path("/dev/shm")  # noqa: S108 - what is found there is checked
_SHORTEST_COOKIE = 16


class NotMappableError(Exception):
    """What a node told is not found here: it is on another host, or in another container."""


class MappedFile:
    """A file that `open_shared` has found to be the tier's.

    Its lock ends, and with it the node's belief that this process may still write, when the file is
    closed and no view of it is left.

    Args:
        descriptor: The open file, which is closed with this object.
        shared: What the node told.

    Attributes:
        view: The bytes from slot 0 on.
        address: Where they begin in this process.
        closed: Whether `close` was called.
    """

    def __init__(self, descriptor: int, shared: SharedFile) -> None:
        try:
            self._mapping = mmap.mmap(descriptor, shared.size_bytes)
            # The mapping keeps the open file, and its lock, for as long as it lives.
        finally:
            os.close(descriptor)
        self._whole = memoryview(self._mapping)
        self.view = self._whole[shared.data_offset :]
        anchor = ctypes.c_char.from_buffer(self._mapping)
        self.address = ctypes.addressof(anchor) + shared.data_offset
        self.closed = False
        self._populating = Populating(self._mapping, ctypes.addressof(anchor))

    def close(self) -> None:
        """Unmap the file, unless somebody still has a view of it: then the last view does."""
        self.closed = True
        self._populating.stop()
        self.view.release()
        self._whole.release()
        with suppress(BufferError):
            self._mapping.close()


def open_shared(shared: SharedFile, directory: Path | None) -> MappedFile:
    """Find, check, lock and map the file that a node told.

    Args:
        shared: What the node told.
        directory: Where shared memory is here; None looks where the node said, then in /dev/shm.

    Raises:
        NotMappableError: When there is no such file, or it is another one.
    """
    if not shared.name or "/" in shared.name or "\0" in shared.name or shared.name in {".", ".."}:
        raise NotMappableError(f"{shared.name!r} is no name of a file")
    where = [directory] if directory else [Path(shared.directory), DEFAULT_DIRECTORY]
    for each in dict.fromkeys(where):
        if each.is_absolute() and "\0" not in str(each):
            descriptor = _open_checked(each / shared.name, shared)
            if descriptor is not None:
                return MappedFile(descriptor, shared)
    raise NotMappableError(f"{shared.name} is not in {' or '.join(map(str, where))}")


def _open_checked(path: Path, shared: SharedFile) -> int | None:
    """Open a file and lock its byte; None when it is not the one."""
    try:
        # Without opening it for use: what has this name may be a device that acts on that.
        found = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(found)
        if not stat.S_ISREG(status.st_mode) or status.st_size != shared.size_bytes:
            return None
        descriptor = os.open(f"/proc/self/fd/{found}", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    finally:
        os.close(found)
    header = make_header(shared.cookie)
    # Those of an arena are within its header: else the node could name any file by a part of it.
    right = len(shared.cookie) >= _SHORTEST_COOKIE and len(header) <= shared.data_offset
    right = right and os.pread(descriptor, len(header), 0) == header
    if right and lock_byte(descriptor, shared.lock_offset):
        return descriptor
    os.close(descriptor)
    return None
