"""Reading a stream of messages in a task, and waiting for what it brings."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from kvtier.client import Backoff, NodeClient, Watch

_PATIENCE = 30.0
_HEARTBEAT = 0.1


def quick_watch(client: NodeClient, **settings: Any) -> Watch:
    """Return a watch that notices within fractions of a second that a node is lost, or back."""
    backoff = Backoff(base=0.01, cap=0.05)
    return Watch(client, heartbeat_interval=_HEARTBEAT, backoff=backoff, **settings)


def check_watch(watch: Watch) -> None:
    """Fail when a node sent what does not follow: the watch would heal it, and hide it."""
    assert watch.gaps == 0, "a node leaves nothing out, and sends nothing out of turn"


class Reader:
    """Something that a task reads on, as long as it may; others wait until it has come somewhere.

    Attributes:
        may_read: Whether the task may take the next message.
    """

    def __init__(self) -> None:
        self.may_read = asyncio.Event()
        self.may_read.set()
        self._moved = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None

    def moved(self) -> None:
        """Wake whoever waits."""
        self._moved.set()

    def begin(self, reading: Coroutine[Any, Any, None]) -> None:
        """Read on in a task."""
        self._reading = asyncio.create_task(reading)
        self._reading.add_done_callback(lambda _: self._moved.set())

    async def end(self) -> None:
        """Stop the task."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})

    def check(self) -> None:
        """Raise what a message did wrong."""
        if self._reading is not None and self._reading.done() and not self._reading.cancelled():
            self._reading.result()
            raise EOFError("the stream ended")

    async def until(self, condition: Callable[[], object], what: Callable[[], str]) -> None:
        """Wait until something holds, and fail when it does not come to hold."""
        try:
            async with asyncio.timeout(_PATIENCE):
                while not condition():
                    self.check()
                    self._moved.clear()
                    await self._moved.wait()
        except TimeoutError:
            raise AssertionError(f"after {_PATIENCE:g} s: {what()}") from None
