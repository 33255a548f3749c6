"""Waking the tasks that wait for something to happen."""

import asyncio


class Bell:
    """Wakes every waiting task; ringing costs the same however many wait.

    All methods belong to one event loop.
    """

    def __init__(self) -> None:
        self._waiters: set[asyncio.Future[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ringing = False

    def ring(self) -> None:
        """Wake the tasks that wait now, at the loop's next turn."""
        if self._waiters and not self._ringing:
            assert self._loop is not None
            self._ringing = True
            self._loop.call_soon(self._wake)

    async def wait(self, seconds: float) -> None:
        """Return after the next ring, or after so many seconds. May return early."""
        self._loop = asyncio.get_running_loop()
        waiter = self._loop.create_future()
        timer = self._loop.call_later(seconds, _release, waiter)
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiters.discard(waiter)

    def _wake(self) -> None:
        self._ringing = False
        for waiter in self._waiters:
            _release(waiter)


def _release(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
