"""Following the log: what is added is sent as it comes."""

import asyncio
from typing import Final, NoReturn

from kvtier.server.events.feed import Feed
from kvtier.server.events.line import Line
from kvtier.server.events.pace import Pace
from kvtier.server.events.source import LogSource
from kvtier.wire.errors import KvtierError, Reason, unavailable


def sent_off() -> KvtierError:
    """Return what a drain tells a follower in the end."""
    return unavailable(
        "the node is draining; every event was sent", Reason.DRAINING, retry_after=1.0
    )


_MOMENT: Final = 0.001


class Live:
    """Sends one follower the log from a position on.

    Args:
        source: The node that is followed.
        feed: Reads the log with the follower's filter.
        line: The way to the follower.
        pace: Times and sizes.

    Attributes:
        cursor: The position that was read last.
    """

    def __init__(self, source: LogSource, feed: Feed, line: Line, pace: Pace) -> None:
        self.cursor = 0
        self._source = source
        self._log = source.log
        self._feed = feed
        self._line = line
        self._pace = pace
        self._clock = asyncio.get_running_loop().time

    async def follow(self) -> NoReturn:
        """Send everything after the cursor, without end.

        Raises:
            Lagged: When the log no longer holds the batch after the cursor.
            KvtierError: UNAVAILABLE when the node drains, after its last event.
        """
        while True:
            started = self._clock()
            await self._line.introduce_namespaces()
            limit = self._log.head
            while self.cursor < limit:
                await self._step(limit)
                await self._beat()
            await self._beat()
            await self._line.introduce_changes(self.cursor)
            if self._source.draining.is_set():
                await self._send_off()
            await self._rest(started)

    async def forward(self, limit: int) -> None:
        """Send what lies between the cursor and a position, which is at most the head.

        Raises:
            Lagged: When the log no longer holds the batch after the cursor.
        """
        await self._line.introduce_namespaces()
        while self.cursor < limit:
            await self._step(limit)

    async def _step(self, limit: int) -> None:
        delivery = self._feed.read(self._line.told, self.cursor, limit)
        self.cursor = delivery.through
        if delivery.message is not None:
            await self._line.batches(delivery)
        elif self.cursor < limit:
            await asyncio.sleep(0)

    async def _beat(self) -> None:
        if self._clock() >= self._next_beat():
            await self._line.progress(self.cursor)

    async def _send_off(self) -> None:
        """End the stream once the follower has everything."""
        if self._line.told < self.cursor:
            await self._line.progress(self.cursor)
        if self._line.told == self._log.head:
            raise sent_off()

    async def _rest(self, started: float) -> None:
        # A loop may call a hair too early, and would be asked for a hair of time again and again.
        await self._log.wait(self.cursor, max(self._next_beat() - self._clock(), _MOMENT))
        busy_until = started + self._pace.linger
        if self._clock() < busy_until:
            await asyncio.sleep(busy_until - self._clock())

    def _next_beat(self) -> float:
        return self._line.last_progress + self._pace.heartbeat_interval
