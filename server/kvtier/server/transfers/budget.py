"""Bytes that all transfers together may have in memory."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Budget:
    """A number of bytes that calls share; who finds too few waits for them in turn.

    It belongs to one event loop.

    Args:
        limit: The bytes.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._free = limit
        self._waiting = deque[tuple[int, asyncio.Future[None]]]()

    @property
    def used(self) -> int:
        """The bytes that calls have now."""
        return self._limit - self._free

    @asynccontextmanager
    async def share(self, amount: int) -> AsyncIterator[None]:
        """Wait for bytes, and have them for the time of a block.

        A caller has at most one share: who waited for a second would wait for itself.

        Args:
            amount: How many; more than there are count as all.
        """
        amount = min(amount, self._limit)
        await self._take(amount)
        try:
            yield
        finally:
            self.give_back(amount)

    def take_spare(self, amount: int) -> bool:
        """Take bytes if nobody is in need of them, and return whether that was so."""
        if self._waiting or amount > self._free:
            return False
        self._free -= amount
        return True

    def give_back(self, amount: int) -> None:
        """Return bytes that were taken."""
        self._free += amount
        self._serve()

    async def _take(self, amount: int) -> None:
        if self.take_spare(amount):
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((amount, turn))
        try:
            await turn
        except asyncio.CancelledError:
            # What was given in the same moment is for the next.
            self.give_back(0 if turn.cancelled() else amount)
            raise

    def _serve(self) -> None:
        while self._waiting:
            amount, turn = self._waiting[0]
            if not turn.cancelled():
                if amount > self._free:
                    return
                self._free -= amount
                turn.set_result(None)
            self._waiting.popleft()
