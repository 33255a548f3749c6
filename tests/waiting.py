"""Wait for what nothing announces."""

import asyncio
from collections.abc import Callable


async def until(done: Callable[[], object], seconds: float = 10.0) -> None:
    """Wait until something is so.

    Raises:
        TimeoutError: When it is not in time.
    """
    async with asyncio.timeout(seconds):
        while not done():  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.005)
