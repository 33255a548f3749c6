"""Running a command's coroutine so that Ctrl-C and SIGTERM end it cleanly."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from kvtier.cli.exit import Terminated

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end and return its value.

    Raises:
        KeyboardInterrupt: On Ctrl-C, after the coroutine has cleaned up.
        Terminated: On SIGTERM, likewise.
    """
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_until_terminated(work))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop  # noqa: PLC0415 - faster where it is there
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


async def _until_terminated(work: Coroutine[Any, Any, T]) -> T:
    task = asyncio.current_task()
    assert task is not None
    terminated = asyncio.Event()

    def stop() -> None:
        terminated.set()
        task.cancel()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
    try:
        return await work
    except asyncio.CancelledError:
        if terminated.is_set():
            raise Terminated from None
        raise
