"""Following nodes: what they hold and what happened there, known from their events alone."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple, Protocol

from kvtier.cli.arrival import Arrival
from kvtier.cli.checking.difference import Blocks
from kvtier.cli.checking.journal import Journal
from kvtier.cli.described import Described
from kvtier.cli.exit import CommandError
from kvtier.client import BlockIndex, NodeClient, Watch
from kvtier.v1.event_service_pb2 import WatchEventsResponse
from kvtier.wire.errors import KvtierError


class TierKey(NamedTuple):
    """A tier of a node."""

    node_id: str
    tier: str


class View(Protocol):
    """What events say that nodes hold.

    Attributes:
        arrival: How far the sources have come.
        journal: What is told, while somebody records it.
    """

    arrival: Arrival
    journal: Journal

    def apply(self, message: WatchEventsResponse) -> None:
        """Take the next message of a source."""

    def blocks(self, node_id: str, tier: str) -> Blocks:
        """Return what a tier holds."""


class Follower:
    """Folds messages into an index, and counts what was stored and removed since it was in sync.

    Attributes:
        arrival: How far the sources have come.
        journal: What is told, while somebody records it.
        index: Who holds what.
        stored: Blocks stored, by tier.
        removed: Blocks removed, by tier; clears are not counted.
        highest: The most by which the stores of a tier were ever ahead of its removals after a
            batch: for a tier that began empty, the most blocks that it was shown to hold.
        gaps: Times that a source began anew after it was in sync. What happened meanwhile is in
            the index, but in no count.
    """

    def __init__(self) -> None:
        self.arrival = Arrival()
        self.index = BlockIndex()
        self.stored: Counter[TierKey] = Counter()
        self.removed: Counter[TierKey] = Counter()
        self.highest: Counter[TierKey] = Counter()
        self.gaps = 0
        self._described = Described()
        self.journal = Journal(self._described)

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
            case "reset" if self.arrival.synced(message.node_id):
                self.gaps += 1
        self.journal.note(message)
        self.arrival.note(message)

    def blocks(self, node_id: str, tier: str) -> Blocks:
        """Return what a tier holds."""
        return dict.fromkeys(self.index.blocks(node_id, tier))

    def resident(self, key: TierKey) -> int:
        """Return how many blocks a tier holds."""
        return self.index.count(key.node_id, key.tier)

    def require_no_gaps(self, endpoint: str) -> None:
        """Raise CommandError when the stream began anew, so that counts are missing."""
        if self.gaps:
            what = f"the event stream began anew {self.gaps} times, so that counts are missing"
            raise CommandError(endpoint, what, "replay again, on a node without other load")

    def _count(self, message: WatchEventsResponse) -> None:
        node_id = message.node_id
        if not self.arrival.synced(node_id):
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


@asynccontextmanager
async def following(
    client: NodeClient,
    view: View,
    *,
    tiers: Sequence[str] = (),
    namespaces: Sequence[bytes] = (),
) -> AsyncIterator[None]:
    """Feed a view with a node's events, from when it is in sync until the end of the block.

    Args:
        client: The node's client.
        view: What takes the messages.
        tiers: Names of tiers to see; none means all.
        namespaces: Fingerprints to see; none means all.
    """

    async def pump() -> None:
        try:
            async with Watch(client, tiers=tiers, namespaces=namespaces) as watch:
                async for message in watch:
                    view.apply(message)
        except (CommandError, KvtierError) as error:
            view.arrival.fail(error)

    task = asyncio.create_task(pump())
    try:
        await view.arrival.reach((await client.get_node()).node_id)
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
