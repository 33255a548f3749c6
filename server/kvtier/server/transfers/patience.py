"""Waiting for a peer no longer than it is worth."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
SecondsLeft = Callable[[], float]


async def while_time_is_left(waiting: Awaitable[T], seconds_left: SecondsLeft) -> T:
    """Return what something answers, unless time runs out before.

    Args:
        waiting: What to wait for; it is cancelled when time runs out.
        seconds_left: Asked at the start, and again when the time that it told has passed: it may
            have grown meanwhile.

    Raises:
        TimeoutError: When no time is left.
    """
    task = asyncio.ensure_future(waiting)
    try:
        while not task.done():
            left = seconds_left()
            if left <= 0:
                raise TimeoutError
            await asyncio.wait({task}, timeout=left)
        return task.result()
    finally:
        task.cancel()
        # What the task raised leads to this frame: a circle that would keep the peer's messages
        # until the next full collection, which is rare.
        del task


async def patiently(incoming: AsyncIterator[T], seconds_left: SecondsLeft) -> AsyncIterator[T]:
    """Yield what comes, unless time runs out before the next.

    Raises:
        TimeoutError: When no time is left.
    """
    while True:
        try:
            message = await while_time_is_left(anext(incoming), seconds_left)
        except StopAsyncIteration:
            return
        yield message
