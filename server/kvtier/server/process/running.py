"""Running a server as a process: its loop, its stop signals, and how it ends."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, NoReturn, Protocol

from kvtier.server.config import ConfigError
from kvtier.server.process.allocator import keep_memory_of_messages
from kvtier.server.process.collector import spare_long_lived
from kvtier.server.serving.starting import StartError
from kvtier.server.stores.base import StoreError

USAGE_ERROR = 2
_FAILED = 1
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Server(Protocol):
    """What can be run."""

    async def start(self) -> None:
        """Serve."""
        ...

    async def drain_and_stop(self) -> None:
        """Let what is under way end, and stop."""
        ...

    def hurry(self) -> None:
        """Do not wait for what is under way."""
        ...

    async def close(self) -> None:
        """Give back what was taken; the server must not be serving."""
        ...


def run(serving: Coroutine[Any, Any, None]) -> None:
    """Run a server on an event loop of its own; a start that fails ends the process."""
    for number in _STOP_SIGNALS:
        # The first process of a container has no other way to end before the server handles them.
        signal.signal(number, _leave)
    # Those that came before, see `kvtier.cli.becoming`.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP_SIGNALS)
    keep_memory_of_messages()
    with asyncio.Runner(loop_factory=_new_loop()) as runner:
        try:
            runner.run(serving)
        except ConfigError as error:
            fail(error, USAGE_ERROR)
        except (StartError, StoreError) as error:
            fail(error, _FAILED)


async def serve_until_stopped(server: Server, announce: Callable[[], None]) -> None:
    """Serve until SIGTERM or SIGINT; a second one hurries.

    Args:
        server: The server.
        announce: Called once it serves.
    """
    stop = asyncio.Event()

    def on_signal() -> None:
        if stop.is_set():
            server.hurry()
        stop.set()

    loop = asyncio.get_running_loop()
    for number in _STOP_SIGNALS:
        loop.add_signal_handler(number, on_signal)
    if os.getpid() == 1:
        # Not by the loop: uvloop keeps this signal to itself.
        signal.signal(signal.SIGCHLD, _bury_orphans)
        _bury_orphans()
    try:
        await server.start()
        spare_long_lived()
    except BaseException:
        await server.close()
        raise
    announce()
    await stop.wait()
    await server.drain_and_stop()


def fail(error: Exception, code: int) -> NoReturn:
    """End the process with one line that says why."""
    sys.stderr.write(f"error: {error}\n")
    sys.exit(code)


def _leave(*_: object) -> NoReturn:
    """End the process, which does not serve yet."""
    sys.exit(0)


def _bury_orphans(*_: object) -> None:
    """Take note of the end of processes that were left to this one: it is the container's first."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _new_loop() -> type[asyncio.AbstractEventLoop] | None:
    try:
        import uvloop  # noqa: PLC0415 - not on every platform
    except ImportError:
        return None
    return uvloop.Loop
