"""Several batches under way at one time, so that calls and copies overlap."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from kvtier.client.errors import KvtierError

Item = TypeVar("Item")
T = TypeVar("T")


async def overlapped(
    items: Iterable[Item], act: Callable[[Item], Awaitable[T]], window: int
) -> list[T | KvtierError]:
    """Act on each item, `window` at a time; return what each gave, or the error that it ended with.

    Args:
        items: Taken one by one, each only when its turn has come.
        act: What to do with one.
        window: How many are under way at most.
    """
    room = asyncio.Semaphore(window)
    tasks: list[asyncio.Task[T | KvtierError]] = []

    async def one(item: Item) -> T | KvtierError:
        try:
            return await act(item)
        except KvtierError as error:
            return error
        finally:
            room.release()

    try:
        for item in items:
            await room.acquire()
            tasks.append(asyncio.create_task(one(item)))
        return [await task for task in tasks]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
