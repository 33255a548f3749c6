"""A follower that takes no message and does not leave either is not waited for without end."""

import asyncio
from collections.abc import Coroutine
from typing import Any, NoReturn, Protocol

from kvtier.wire.errors import KvtierError, Reason, exhausted


class Way(Protocol):
    """The way to a follower.

    Attributes:
        waits_since: Since when a message waits to be read, in the loop's time; None when none does.
    """

    waits_since: float | None

    @property
    def patience(self) -> float:
        """How long one message may wait to be read, in seconds."""
        ...


class Stall:
    """Gives a follower up when one message waits for longer than its line's patience.

    Nothing is done for each message: a timer looks now and then how long one has been waiting.

    Args:
        line: The way to the follower.
        every: Longest time between two looks, in seconds; at most any patience of the line.
    """

    def __init__(self, line: Way, every: float) -> None:
        self._line = line
        self._every = every
        self._loop = asyncio.get_running_loop()
        self._limit = asyncio.timeout(None)
        self._timer: asyncio.TimerHandle | None = None

    async def guard(self, work: Coroutine[Any, Any, NoReturn]) -> NoReturn:
        """Do the work on the line, and break it off when the follower is given up.

        Raises:
            KvtierError: RESOURCE_EXHAUSTED when it is; else what the work raises.
        """
        try:
            async with self._limit:
                self._look()
                await work
        except TimeoutError:
            if not self._limit.expired():
                raise
            raise self._error() from None
        finally:
            if self._timer is not None:
                self._timer.cancel()

    def _look(self) -> None:
        line, now = self._line, self._loop.time()
        left = self._every
        if line.waits_since is not None:
            left = min(left, line.waits_since + line.patience - now)
        if left > 0:
            self._timer = self._loop.call_later(left, self._look)
        else:
            self._limit.reschedule(now)

    def _error(self) -> KvtierError:
        return exhausted(
            f"no message was read for {self._line.patience:g} s; read faster, or ask for fewer "
            "tiers or namespaces",
            Reason.FOLLOWER_STALLED,
            retry_after=1.0,
        )
