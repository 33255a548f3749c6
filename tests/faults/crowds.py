"""Crowds of followers in processes of their own, which a test can make read on."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from . import crowd as program
from .processes import END_SECONDS, end


class Crowd:
    """Followers in a process of their own, each of which has read some messages and reads no more.

    Attributes:
        process: The process.
    """

    def __init__(self, process: Process) -> None:
        self.process = process

    async def line(self) -> str:
        """Return the next line that the process prints."""
        assert self.process.stdout is not None
        async with asyncio.timeout(END_SECONDS):
            return (await self.process.stdout.readline()).decode().strip()

    async def endings(self) -> list[tuple[str, str]]:
        """Have every stream read to its end; return the code and the reason of each."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"read on\n")
        return [(code, reason) for code, reason in json.loads(await self.line())]


@asynccontextmanager
async def crowd_process(endpoint: str, number: int, reads: int = 1) -> AsyncIterator[Crowd]:
    """Follow a node so many times, from another process."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(program.__file__),
        *(endpoint, str(number), str(reads)),
        stdin=PIPE,
        stdout=PIPE,
    )
    try:
        crowd = Crowd(process)
        assert await crowd.line() == "following"
        yield crowd
    finally:
        await end(process)
