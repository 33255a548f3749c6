"""A tier's own threads for input and output, and jobs that are waited for only so long."""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")
A = TypeVar("A")


class StalledError(Exception):
    """A job took longer than it may; its thread may still be at it."""


class Job(Generic[T]):
    """Work for a thread, with a deadline.

    After the deadline it is abandoned: who waits goes on, and a thread that has not begun never
    will. What a thread is at cannot be stopped, so whatever it uses is held until `ended`.

    Attributes:
        abandoned: Nobody waits any more.
        began: When a thread began it, by the monotonic clock; None when none has.
        ended: Done when no thread is at the work, nor will be; a future of the loop.
    """

    def __init__(self, work: "Callable[[Job[T]], T]", timeout: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + timeout
        self.began: float | None = None
        self._work: Callable[[Job[T]], T] | None = work
        self._claim = threading.Lock()
        self.abandoned = False
        self.ended: asyncio.Future[T] = self._loop.create_future()
        # An error is told to who waits; where nobody does, it is told by what the work leaves.
        self.ended.add_done_callback(lambda ended: ended.cancelled() or ended.exception())

    async def result(self) -> T:
        """Return what the work gives.

        Raises:
            StalledError: At the deadline; the job is abandoned then.
        """
        if not self.ended.done():
            left = self._deadline - self._loop.time()
            await asyncio.wait({self.ended}, timeout=max(0.0, left))
        if not self.ended.done():
            self.abandon()
            raise StalledError
        return self.ended.result()

    def abandon(self) -> None:
        """Wait for it no more."""
        self.abandoned = True
        if self._claim.acquire(blocking=False):
            # It stays in the queue, and shall not keep its blocks there.
            self._work = None
            self._settle(None, StalledError())

    def call_on_loop(self, call: Callable[[A], None], argument: A) -> None:
        """Have the loop call something; for the thread that is at the work."""
        # When the loop is closed, the process is at its end.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call, argument)

    def run(self) -> None:
        """Do the work in this thread, unless it was abandoned before."""
        work = self._work
        if work is None or not self._claim.acquire(blocking=False):
            return
        result: T | None = None
        error: BaseException | None = None
        self.began = time.monotonic()
        try:
            result = work(self)
        except BaseException as caught:  # noqa: BLE001 - it is for who waits
            error = caught
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._settle, result, error)

    def _settle(self, result: T | None, error: BaseException | None) -> None:
        if self.ended.done():
            return
        if error is not None:
            self.ended.set_exception(error)
        else:
            self.ended.set_result(result)  # type: ignore[arg-type]  # None where T is None


class Lane:
    """A few threads of one tier, so that a disk that stands still holds up nobody else.

    They are daemons: a stop of the process does not wait for one that is stuck.

    Args:
        name: The tier's name, for the threads' names.
        threads: How many there are.
        timeout: How long a job may take, waiting for a thread too, in seconds.
    """

    def __init__(self, name: str, threads: int, timeout: float) -> None:
        self.timeout = timeout
        self.width = threads
        self._moved = 0.0
        self._queue = SimpleQueue[Job[object] | None]()
        for number in range(threads):
            threading.Thread(
                target=self._serve, name=f"kvtier-{name}-{number}", daemon=True
            ).start()

    def start(self, work: Callable[[Job[T]], T]) -> Job[T]:
        """Let the next free thread do some work."""
        job = Job(work, self.timeout)
        self._queue.put(job)  # type: ignore[arg-type]  # what it gives is its own
        return job

    def stands_still(self, job: Job[T]) -> bool:
        """Tell of a job that was given up whether nothing moved, or there was only too much to do.

        For at least half of the time that a job may take, either a thread was at this one, or none
        came back from any.
        """
        return time.monotonic() - (job.began or self._moved) >= self.timeout / 2

    def close(self) -> None:
        """Let the threads end when they have done what waits."""
        for _ in range(self.width):
            self._queue.put(None)

    def _serve(self) -> None:
        while (job := self._queue.get()) is not None:
            job.run()
            self._moved = time.monotonic()
            # The frame would keep its blocks until the next job comes.
            del job
