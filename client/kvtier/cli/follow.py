"""A follower: what nodes hold and what happened there, known from their events alone."""

import asyncio
from collections import Counter
from typing import NamedTuple

from kvtier.cli.described import Described
from kvtier.cli.exit import CommandError
from kvtier.client import BlockIndex
from kvtier.v1.event_service_pb2 import WatchEventsResponse

_PATIENCE = 30.0


class TierKey(NamedTuple):
    """A tier of a node."""

    node_id: str
    tier: str


class Follower:
    """Folds messages into an index, and counts what was stored and removed since it was in sync.

    Attributes:
        index: Who holds what.
        stored: Blocks stored, by tier.
        removed: Blocks removed, by tier; clears are not counted.
        highest: The most by which the stores of a tier were ever ahead of its removals after a
            batch: for a tier that began empty, the most blocks that it was shown to hold.
        gaps: Times that a source began anew after it was in sync. What happened meanwhile is in
            the index, but in no count.
    """

    def __init__(self) -> None:
        self.index = BlockIndex()
        self.stored: Counter[TierKey] = Counter()
        self.removed: Counter[TierKey] = Counter()
        self.highest: Counter[TierKey] = Counter()
        self.gaps = 0
        self._described = Described()
        self._synced: set[str] = set()
        self._moved = asyncio.Event()
        self._failure: Exception | None = None

    def apply(self, message: WatchEventsResponse) -> None:
        """Take the next message of a source.

        Raises:
            CommandError: When its stream breaks its grammar, so that blocks cannot be counted.
        """
        self.index.apply(message)
        match message.WhichOneof("kind"):
            case "batches":
                self._count(message)
            case "namespace":
                self._described.note(message.node_id, message.namespace)
            case "reset" if message.node_id in self._synced:
                self._synced.remove(message.node_id)
                self.gaps += 1
            case "synced":
                self._synced.add(message.node_id)
        self._moved.set()

    def fail(self, error: Exception) -> None:
        """Take note that no more messages will come, and why."""
        self._failure = error
        self._moved.set()

    async def reach(self, node_id: str, sequence: int = 0) -> None:
        """Wait until a source is in sync and has come to a sequence of its log.

        Raises:
            CommandError: When it does not get there.
            Exception: What `fail` was told.
        """
        try:
            async with asyncio.timeout(_PATIENCE):
                while not self._reached(node_id, sequence):
                    if self._failure is not None:
                        raise self._failure
                    self._moved.clear()
                    await self._moved.wait()
        except TimeoutError:
            what = f"its events did not come to position {sequence} within {_PATIENCE:g} s"
            raise CommandError(node_id, what) from None

    def resident(self, key: TierKey) -> int:
        """Return how many blocks a tier holds."""
        return self.index.count(key.node_id, key.tier)

    def _reached(self, node_id: str, sequence: int) -> bool:
        if node_id not in self._synced:
            return False
        position = self.index.position(node_id)
        return position is not None and position.sequence >= sequence

    def _count(self, message: WatchEventsResponse) -> None:
        node_id = message.node_id
        if node_id not in self._synced:
            return
        for batch in message.batches.batches:
            for removed in batch.removed:
                self.removed[TierKey(node_id, removed.tier)] += self._described.count(
                    node_id, removed
                )
            for stored in batch.stored:
                key = TierKey(node_id, stored.tier)
                self.stored[key] += self._described.count(node_id, stored)
                self.highest[key] = max(self.highest[key], self.stored[key] - self.removed[key])
