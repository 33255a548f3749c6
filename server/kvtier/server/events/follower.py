"""One follower: a cursor into the log, from its first message to its last."""

import asyncio
from collections import Counter
from typing import Final, NoReturn

from kvtier.server.events.feed import Feed
from kvtier.server.events.line import Line
from kvtier.server.events.live import Live
from kvtier.server.events.log import EventLog, Lagged
from kvtier.server.events.pace import Pace
from kvtier.server.events.snapshot import SnapshotSlots, blocks_at, pages, ready_blocks, slices
from kvtier.server.events.source import EventSource
from kvtier.v1.block_pb2 import Position
from kvtier.v1.event_service_pb2 import ResetReason
from kvtier.wire.errors import Reason, exhausted

_RESETS_AT_MOST: Final = 3


def reset_reason(log: EventLog, position: Position) -> ResetReason.ValueType | None:
    """Return why a position cannot be resumed; None when it can."""
    if position.epoch != log.epoch:
        return ResetReason.RESET_REASON_EPOCH_CHANGED
    if position.sequence > log.head:
        return ResetReason.RESET_REASON_AHEAD_OF_HEAD
    if position.sequence < log.oldest:
        return ResetReason.RESET_REASON_COMPACTED
    return None


def lacks_events(log: EventLog, position: Position | None) -> bool:
    """Return whether a position can be resumed, and is not the last one."""
    if position is None or reset_reason(log, position) is not None:
        return False
    return position.sequence < log.head


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
        resets: How many resets followers were sent, by reason; kept up to date.
    """

    def __init__(
        self,
        source: EventSource,
        feed: Feed,
        line: Line,
        slots: SnapshotSlots,
        pace: Pace,
        *,
        resets: Counter[int],
    ) -> None:
        self._source = source
        self._log = source.log
        self._feed = feed
        self._line = line
        self._slots = slots
        self._pace = pace
        self._resets = resets
        self._live = Live(source, feed, line, pace)
        self._clock = asyncio.get_running_loop().time

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
                await self._live.follow()
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
        blocks = await blocks_at(self._source, self._feed.wanted, sequence)
        self._live.cursor = self._line.told = sequence
        await self._line.introduce()
        await self._line.synced(sequence, blocks)

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
        await self._reset(reason, self._log.head)
        raise exhausted(
            f"{_RESETS_AT_MOST} resets without reaching the end of a snapshot; "
            "read faster, or ask for fewer tiers or namespaces",
            Reason.RESET_LIMIT,
            retry_after=1.0,
        )

    async def _send_snapshot(self, reason: ResetReason.ValueType) -> None:
        source, line, wanted = self._source, self._line, self._feed.wanted
        self._live.cursor = self._log.head
        await self._reset(reason, self._live.cursor)
        await line.introduce()
        for stored in slices(source, wanted):
            await self._send_slice(stored, self._log.head)
            await asyncio.sleep(0)
        head, blocks = self._log.head, ready_blocks(source, wanted)
        await self._live.forward(head)
        await line.synced(head, blocks)

    async def _reset(self, reason: ResetReason.ValueType, through: int) -> None:
        self._resets[reason] += 1
        await self._line.reset(reason, through)

    async def _send_slice(self, stored: list[bytes], head: int) -> None:
        await self._live.forward(head)
        for page in pages(stored, self._pace.message_bytes):
            await self._line.page(page, head)
        if self._clock() - self._line.last_sent >= self._pace.heartbeat_interval:
            await self._line.page((), head)
