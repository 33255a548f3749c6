"""Calls that must go one after the other."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """Lets calls of one name go one after the other, and all others at once."""

    def __init__(self) -> None:
        self._taken: dict[bytes, asyncio.Event] = {}

    @asynccontextmanager
    async def of(self, name: bytes) -> AsyncIterator[None]:
        """Wait until no other call of this name is inside, and be inside."""
        while (other := self._taken.get(name)) is not None:
            await other.wait()
        mine = self._taken[name] = asyncio.Event()
        try:
            yield
        finally:
            del self._taken[name]
            mine.set()
