"""A follower of one node by the client's own `Watch`, read when a test asks for it."""

import asyncio
from typing import Self

from kvtier.client import NodeClient, Watch
from kvtier.v1.event_service_pb2 import EventBatch, WatchEventsResponse

from .folding import Fold, Told

SETTLE_SECONDS = 10.0


class Follower:
    """Reads a node's `Watch` and folds it; a message that breaks the grammar fails the test.

    Attributes:
        fold: The view, and everything that was told.
    """

    def __init__(self, client: NodeClient) -> None:
        self.fold = Fold()
        self._client = client
        self._watch = Watch(client)
        self._batches: list[EventBatch] = []
        self._told = 0

    async def __aenter__(self) -> Self:
        await self.settle()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._watch.close()

    async def settle(self) -> None:
        """Read everything that the node's log holds now."""
        head = (await self._client.get_node()).head.sequence
        async with asyncio.timeout(SETTLE_SECONDS):
            while not self.fold.synced or self.fold.through < head:
                self._apply(await anext(self._watch))

    async def news(self) -> list[Told]:
        """Return what was told since the last call, up to now, in order."""
        await self.settle()
        first, self._told = self._told, len(self.fold.told)
        return self.fold.told[first:]

    async def batches(self) -> list[EventBatch]:
        """Return the batches since the last call, up to now, in order."""
        await self.settle()
        taken, self._batches = self._batches, []
        return taken

    def _apply(self, message: WatchEventsResponse) -> None:
        # What the watch says of the connection is not the node's.
        if message.HasField("state") and not message.state.tier:
            return
        self.fold.apply(message)
        self._batches += message.batches.batches
