"""Waiting for what ends by itself, unless somebody is in a hurry."""

import asyncio
from collections.abc import Callable

_POLL = 0.02


class Haste:
    """Whether a stop waits for what is under way; a second stop signal says that it does not.

    Attributes:
        hurried: Whether nothing is waited for any more.
    """

    def __init__(self) -> None:
        self.hurried = False

    def hurry(self) -> None:
        """Wait for nothing any more."""
        self.hurried = True

    async def until(self, done: Callable[[], bool], longest: float) -> bool:
        """Wait until something is done, so many seconds have passed, or there is a hurry.

        Returns:
            Whether it is done.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + longest
        while not done():
            if self.hurried or loop.time() >= deadline:
                return False
            await asyncio.sleep(_POLL)
        return True

    async def pause(self, seconds: float) -> None:
        """Let a time pass, unless there is a hurry."""
        await self.until(lambda: False, seconds)
