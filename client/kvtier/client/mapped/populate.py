"""Mapping the pages of a shared file ahead of their use, in the background."""

import ctypes
import mmap
import threading

# Linux 5.14; an older kernel refuses it, and maps pages when they are first used.
_MADV_POPULATE_WRITE = 23
_PIECE = 64 << 20
_madvise = ctypes.CDLL(None).madvise
_madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class Populating:
    """A thread that maps pages, so that copies cost no page faults.

    Args:
        mapping: The mapping, kept until the thread ends.
        address: Where it begins.
    """

    def __init__(self, mapping: mmap.mmap, address: int) -> None:
        self._stopped = threading.Event()
        self._thread = threading.Thread(
            target=_populate,
            args=(mapping, address, self._stopped),
            name="kvtier-populate",
            daemon=True,
        )
        self._thread.start()

    def stop(self) -> None:
        """End the thread; the mapping may be closed then."""
        self._stopped.set()
        self._thread.join()


def _populate(mapping: mmap.mmap, address: int, stopped: threading.Event) -> None:
    size = len(mapping)
    for start in range(0, size, _PIECE):
        length = min(_PIECE, size - start)
        if stopped.is_set() or _madvise(address + start, length, _MADV_POPULATE_WRITE):
            return
