"""Copying and checking bytes in threads, beside which the rest of the process runs on."""

import asyncio
import ctypes
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple, TypeVar

from xxhash import xxh3_64, xxh3_64_intdigest

from kvtier.client.mapped.ways import blocks_closed

# Small enough to be still in a core's cache when it is hashed, large enough to be worth a call.
PIECE_BYTES = 256 << 10
# Less than this is copied on the loop: it costs less than a turn of a thread.
INLINE_BYTES = 128 << 10

Job = TypeVar("Job")


class Copy(NamedTuple):
    """One block to copy.

    Attributes:
        target: The bytes to write.
        to: Their address.
        source: The address to copy from.
    """

    target: memoryview
    to: int
    source: int


def copy_all(copies: Sequence[Copy]) -> list[int]:
    """Copy blocks; return the XXH3-64 of each, of what is in the target."""
    return [_copy(each) for each in copies]


def hash_all(views: Sequence[memoryview]) -> list[int]:
    """Return the XXH3-64 of each view."""
    return [xxh3_64_intdigest(view) for view in views]


def _copy(copy: Copy) -> int:
    target, to, source = copy
    hasher, size = xxh3_64(), len(target)
    for start in range(0, size, PIECE_BYTES):
        end = min(start + PIECE_BYTES, size)
        # ctypes lets other threads run meanwhile; assigning to a memoryview does not.
        ctypes.memmove(to + start, source + start, end - start)
        hasher.update(target[start:end])
    return hasher.intdigest()


class Workers:
    """Threads that copy.

    Args:
        threads: How many.
    """

    def __init__(self, threads: int) -> None:
        self._count = threads
        self._busy = 0
        self._closed = False
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="kvtier-copy")

    async def run(
        self, work: Callable[[Sequence[Job]], list[int]], jobs: Sequence[Job], size: int
    ) -> list[int]:
        """Work on jobs that move `size` bytes, and return what each gives, in order.

        Threads that have nothing to do share them; where all are busy one takes them in its turn.
        It ends when no thread works on them any more, also when the caller is cancelled.

        Raises:
            FailedPreconditionError: When the threads were ended meanwhile.
        """
        if size <= INLINE_BYTES:
            return work(jobs)
        loop = asyncio.get_running_loop()
        share = -(-len(jobs) // max(1, self._count - self._busy))
        parts = [jobs[first : first + share] for first in range(0, len(jobs), share)]
        futures: list[asyncio.Future[list[int]]] = []
        self._busy += len(parts)
        try:
            futures.extend(loop.run_in_executor(self._pool, work, part) for part in parts)
            done = await _all_done(futures)
        except RuntimeError:
            await _all_done(futures)
            if self._closed:
                raise blocks_closed() from None
            raise
        finally:
            self._busy -= len(parts)
        return [each for part in done for each in part]

    def close(self) -> None:
        """End the threads, once they are done."""
        self._closed = True
        self._pool.shutdown()


async def _all_done(futures: "Sequence[asyncio.Future[list[int]]]") -> list[list[int]]:
    cancelled = False
    while not all(future.done() for future in futures):
        try:
            await asyncio.wait(futures)
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        for future in futures:
            with suppress(Exception):
                future.result()
        raise asyncio.CancelledError
    return [future.result() for future in futures]
