"""Orders for processes that live in an event loop."""

import asyncio
from collections.abc import Callable, Coroutine
from multiprocessing.connection import Connection
from typing import Any

import uvloop


def run(work: Callable[..., Coroutine[Any, Any, None]], *arguments: Any) -> None:
    """Run a coroutine as `kvtier serve` and the command line run theirs."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work(*arguments))


async def obey(pipe: Connection, servant: object) -> None:
    """Answer each order by what the servant's coroutine of that name returns."""
    loop = asyncio.get_running_loop()
    while (order := await loop.run_in_executor(None, pipe.recv)) is not None:
        word, *arguments = order
        pipe.send(await getattr(servant, word)(*arguments))
