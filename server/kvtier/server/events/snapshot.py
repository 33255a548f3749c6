"""What the tiers hold, cut into slices and pages that a filter lets pass."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager

from kvtier.server.events.filter import EventFilter
from kvtier.server.events.log import READ_AT_MOST
from kvtier.server.events.source import EventSource, LogSource, TierInfo
from kvtier.v1.event_service_pb2 import TierState
from kvtier.wire.errors import Reason, over_limit


class SnapshotSlots:
    """Limits the snapshots under way at one time, so that they cannot crowd out the node's work.

    Args:
        limit: Most snapshots at one time.
        patience: Longest wait for one of the others to end, in seconds.

    Attributes:
        begun: Snapshots that were begun since the start.
        under_way: Snapshots under way now.
    """

    def __init__(self, limit: int, patience: float) -> None:
        self._limit = limit
        self._patience = patience
        self._free = asyncio.Semaphore(limit)
        self.begun = self.under_way = 0

    @asynccontextmanager
    async def take(self) -> AsyncIterator[None]:
        """Hold one slot.

        Raises:
            KvtierError: RESOURCE_EXHAUSTED when none came free in time.
        """
        try:
            async with asyncio.timeout(self._patience):
                await self._free.acquire()
        except TimeoutError:
            raise over_limit(
                "snapshots",
                f"{self._limit} followers are being sent a snapshot, which is the limit; "
                "connect again in a moment",
                Reason.SNAPSHOT_LIMIT,
                retry_after=1.0,
            ) from None
        self.begun += 1
        self.under_way += 1
        try:
            yield
        finally:
            self.under_way -= 1
            self._free.release()


def slices(source: EventSource, wanted: EventFilter) -> Iterator[list[bytes]]:
    """Walk the live tables: encoded BlockStored messages, exact when they are yielded."""
    for tier in _told_tiers(source, wanted):
        for parts in source.snapshot(tier.index):
            yield [
                part.full if wanted.full else part.basic
                for part in parts
                if wanted.passes_namespace(part.namespace)
            ]


def pages(stored: Sequence[bytes], page_bytes: int) -> Iterator[list[bytes]]:
    """Cut one slice into pages of at most `page_bytes`; a larger message goes alone."""
    page: list[bytes] = []
    size = 0
    for part in stored:
        if size and size + len(part) > page_bytes:
            yield page
            page, size = [], 0
        page.append(part)
        size += len(part)
    if page:
        yield page


def ready_blocks(source: LogSource, wanted: EventFilter) -> int:
    """Return the number of readable blocks that pass, now."""
    namespaces = wanted.namespaces or None
    return sum(source.ready_blocks(tier.index, namespaces) for tier in _told_tiers(source, wanted))


async def blocks_at(source: LogSource, wanted: EventFilter, sequence: int) -> int:
    """Return how many blocks passed at a position: those of now, less what changed since.

    Raises:
        Lagged: When the log no longer holds the batch after the position.
    """
    head, blocks = source.log.head, ready_blocks(source, wanted)
    while sequence < head:
        entries = source.log.read(sequence, min(head, sequence + READ_AT_MOST))
        blocks -= sum(map(wanted.change, entries))
        sequence = entries[-1].sequence
        await asyncio.sleep(0)
    return blocks


def _told_tiers(source: LogSource, wanted: EventFilter) -> list[TierInfo]:
    return [
        tier
        for tier in source.tier_infos()
        if tier.state != TierState.TIER_STATE_SILENT and wanted.passes_tier(tier.index, tier.medium)
    ]
