"""The C library's allocator, told that messages of megabytes come and go all the time.

By default glibc gives memory of that size back to the kernel with each message, and every page of
the next message is a fault: half of what a transfer costs.
"""

import ctypes
import os

# Of malloc.h.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
# Above a message; free memory at the end of the heap up to the second figure is kept.
_LARGEST = 32 << 20
_KEPT = 128 << 20
_GROWTH = 16 << 20


def keep_memory_of_messages() -> bool:
    """Make the process keep the memory of freed messages; return whether the C library does.

    What the operator set in the environment is left alone. Other C libraries than glibc do not
    have the call, and need it less.
    """
    if any(name in os.environ for name in ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = ((_MMAP_THRESHOLD, _LARGEST), (_TRIM_THRESHOLD, _KEPT), (_TOP_PAD, _GROWTH))
    return all(mallopt(name, value) == 1 for name, value in settings)
