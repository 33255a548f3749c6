"""One follower: a cursor into the log, from its first message to its last."""

import asyncio
from dataclasses import dataclass
from typing import Final, NoReturn

from kvtier.server.events.feed import Feed
from kvtier.server.events.line import Line
from kvtier.server.events.log import READ_AT_MOST, EventLog, Lagged
from kvtier.server.events.snapshot import SnapshotSlots, pages, ready_blocks, slices
from kvtier.server.events.source import EventSource
from kvtier.v1.block_pb2 import Position
from kvtier.v1.event_service_pb2 import ResetReason
from kvtier.wire.errors import Reason, exhausted, unavailable

_RESETS_AT_MOST: Final = 3


@dataclass(frozen=True, slots=True)
class Pace:
    """How a follower's messages are timed and cut.

    Attributes:
        heartbeat_interval: Longest time without a message, in seconds.
        linger: Shortest time from message to message while the node is busy, in seconds. The
            first message after a quiet time goes at once.
        message_bytes: Size at which a message is full.
        stall_timeout: How long a follower may take no message, in seconds.
        snapshot_stall_timeout: The same while it is sent a snapshot, in seconds.
    """

    heartbeat_interval: float = 1.0
    linger: float = 0.002
    message_bytes: int = 256 << 10
    stall_timeout: float = 60.0
    snapshot_stall_timeout: float = 10.0


def reset_reason(log: EventLog, position: Position) -> ResetReason.ValueType | None:
    """Return why a position cannot be resumed; None when it can."""
    if position.epoch != log.epoch:
        return ResetReason.RESET_REASON_EPOCH_CHANGED
    if position.sequence > log.head:
        return ResetReason.RESET_REASON_AHEAD_OF_HEAD
    if position.sequence < log.oldest:
        return ResetReason.RESET_REASON_COMPACTED
    return None


class Follower:
    """Tells one follower what the node's tiers hold, and then what changes, without end.

    Only this follower waits while its messages are not read; falling out of the log meanwhile
    costs it a reset and a snapshot.

    Args:
        source: The node that is followed.
        feed: Reads the log with the follower's filter.
        line: The way to the follower.
        slots: Limits the snapshots under way.
        pace: Times and sizes.
    """

    def __init__(
        self, source: EventSource, feed: Feed, line: Line, slots: SnapshotSlots, pace: Pace
    ) -> None:
        self._source = source
        self._log = source.log
        self._feed = feed
        self._line = line
        self._slots = slots
        self._pace = pace
        self._clock = asyncio.get_running_loop().time
        self._cursor = 0

    async def run(self, position: Position | None) -> NoReturn:
        """Send everything from a position on, or from a snapshot on.

        Raises:
            KvtierError: UNAVAILABLE when the node drains, after its last event;
                RESOURCE_EXHAUSTED when the follower is too slow for a snapshot, or too many are
                under way.
        """
        if position is None:
            await self._recover(ResetReason.RESET_REASON_NO_POSITION)
        else:
            await self._resume(position)
        while True:
            try:
                await self._follow()
            except Lagged:
                await self._recover(ResetReason.RESET_REASON_LAGGED)

    async def _resume(self, position: Position) -> None:
        reason = reset_reason(self._log, position)
        if reason is None:
            try:
                await self._confirm(position.sequence)
            except Lagged:
                reason = ResetReason.RESET_REASON_LAGGED
        if reason is not None:
            await self._recover(reason)

    async def _confirm(self, sequence: int) -> None:
        blocks = await self._blocks_at(sequence)
        self._cursor = self._line.told = sequence
        await self._line.introduce()
        await self._line.synced(sequence, blocks)

    async def _blocks_at(self, sequence: int) -> int:
        """Return how many blocks passed at a position: those of now, less what changed since."""
        head, blocks = self._log.head, ready_blocks(self._source, self._feed.wanted)
        while sequence < head:
            entries = self._log.read(sequence, min(head, sequence + READ_AT_MOST))
            blocks -= sum(map(self._feed.wanted.change, entries))
            sequence = entries[-1].sequence
            await asyncio.sleep(0)
        return blocks

    async def _recover(self, reason: ResetReason.ValueType) -> None:
        for _ in range(_RESETS_AT_MOST - 1):
            try:
                async with self._slots.take():
                    self._line.patience = self._pace.snapshot_stall_timeout
                    await self._send_snapshot(reason)
                self._line.patience = self._pace.stall_timeout
            except Lagged:
                reason = ResetReason.RESET_REASON_LAGGED
            else:
                return
        await self._line.reset(reason, self._log.head)
        raise exhausted(
            f"{_RESETS_AT_MOST} resets without reaching the end of a snapshot; "
            "read faster, or ask for fewer tiers or namespaces",
            Reason.RESET_LIMIT,
            retry_after=1.0,
        )

    async def _send_snapshot(self, reason: ResetReason.ValueType) -> None:
        source, line, wanted = self._source, self._line, self._feed.wanted
        self._cursor = self._log.head
        await line.reset(reason, self._cursor)
        await line.introduce()
        for stored in slices(source, wanted):
            await self._send_slice(stored, self._log.head)
            await asyncio.sleep(0)
        head, blocks = self._log.head, ready_blocks(source, wanted)
        await self._forward(head)
        await line.synced(head, blocks)

    async def _send_slice(self, stored: list[bytes], head: int) -> None:
        await self._forward(head)
        for page in pages(stored, self._pace.message_bytes):
            await self._line.page(page, head)
        if self._clock() - self._line.last_sent >= self._pace.heartbeat_interval:
            await self._line.page((), head)

    async def _follow(self) -> NoReturn:
        while True:
            started = self._clock()
            await self._line.introduce_namespaces()
            limit = self._log.head
            while self._cursor < limit:
                await self._step(limit)
                await self._beat()
            await self._beat()
            if self._source.draining.is_set():
                await self._send_off()
            await self._rest(started)

    async def _forward(self, limit: int) -> None:
        await self._line.introduce_namespaces()
        while self._cursor < limit:
            await self._step(limit)

    async def _step(self, limit: int) -> None:
        delivery = self._feed.read(self._line.told, self._cursor, limit)
        self._cursor = delivery.through
        if delivery.message is not None:
            await self._line.batches(delivery)
        elif self._cursor < limit:
            await asyncio.sleep(0)

    async def _beat(self) -> None:
        if self._clock() - self._line.last_progress >= self._pace.heartbeat_interval:
            await self._line.progress(self._cursor)

    async def _send_off(self) -> None:
        """End the stream once the follower has everything."""
        if self._line.told < self._cursor:
            await self._line.progress(self._cursor)
        if self._line.told == self._log.head:
            raise unavailable(
                "the node is draining; every event was sent", Reason.DRAINING, retry_after=1.0
            )

    async def _rest(self, started: float) -> None:
        next_beat = self._line.last_progress + self._pace.heartbeat_interval
        await self._log.wait(self._cursor, next_beat - self._clock())
        busy_until = started + self._pace.linger
        if self._clock() < busy_until:
            await asyncio.sleep(busy_until - self._clock())
