"""Watching a list of members, look by look."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager

from tests.waiting import until

from .manual_time import ManualTime


class Lookout:
    """Collects the lists of a source, whose time passes only in `again`.

    Attributes:
        time: The source's time.
        lists: The lists that came.
        told: What it complained about.
    """

    def __init__(self) -> None:
        self.time = ManualTime()
        self.lists: list[tuple[str, ...]] = []
        self.told: list[str] = []
        self._looks = 0

    async def again(self, times: int = 1) -> None:
        """Let the source look, and wait until it has."""
        for _ in range(times):
            self.time.advance(self.time.asked[-1])
            await self.looked()

    async def looked(self) -> None:
        """Wait until the source has looked once more."""
        self._looks += 1
        await until(lambda: len(self.time.asked) == self._looks)

    async def collect(self, source: AsyncGenerator[tuple[str, ...]]) -> None:
        async for endpoints in source:
            self.lists.append(endpoints)


@asynccontextmanager
async def looking(
    source: Callable[[Lookout], AsyncGenerator[tuple[str, ...]]],
) -> AsyncIterator[Lookout]:
    """Give a lookout over a source, after its first look."""
    lookout = Lookout()
    task = asyncio.create_task(lookout.collect(source(lookout)))
    try:
        await lookout.looked()
        yield lookout
    finally:
        task.cancel()
        await asyncio.wait({task})
