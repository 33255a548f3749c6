"""An index that is fed from a watch, or from a proxy's merged stream, as long as a test lasts."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from kvtier.client import Backoff, BlockIndex, NodeClient, TieringProxy, Watch
from kvtier.v1.event_service_pb2 import WatchEventsResponse

from .folding import Key
from .following import PATIENCE


class View:
    """What a program that follows nodes knows of them.

    Attributes:
        index: The index.
        messages: Every message that it was fed.
    """

    def __init__(self, messages: AsyncIterator[WatchEventsResponse]) -> None:
        self.index = BlockIndex()
        self.messages: list[WatchEventsResponse] = []
        self._moved = asyncio.Event()
        self._reading = asyncio.create_task(self._read(messages))

    def held(self, node_id: str) -> set[Key]:
        """Return every block that a node is known to hold."""
        return {
            Key(tier, *block)
            for tier in self.index.tiers(node_id)
            for block in self.index.blocks(node_id, tier)
        }

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until something holds.

        Raises:
            TimeoutError: When it does not come to hold.
        """
        async with asyncio.timeout(PATIENCE):
            while not condition():
                if self._reading.done():
                    self._reading.result()
                self._moved.clear()
                await self._moved.wait()

    async def settle(self, client: NodeClient) -> None:
        """Wait until everything that happened at a node so far is known."""
        node = await client.get_node()

        def caught_up() -> bool:
            here = self.index.position(node.node_id)
            return (
                here is not None
                and here.epoch == node.head.epoch
                and here.sequence >= node.head.sequence
            )

        await self.until(caught_up)

    async def leave(self) -> None:
        """Stop reading; raise what went wrong."""
        self._reading.cancel()
        for failure in await asyncio.gather(self._reading, return_exceptions=True):
            if isinstance(failure, Exception):
                raise failure

    async def _read(self, messages: AsyncIterator[WatchEventsResponse]) -> None:
        async for message in messages:
            self.messages.append(message)
            self.index.apply(message)
            self._moved.set()


def watch(client: NodeClient) -> Watch:
    """Return a watch that notices a lost node and its return within a moment."""
    return Watch(client, heartbeat_interval=0.5, backoff=Backoff(base=0.02, cap=0.1))


@asynccontextmanager
async def watching(client: NodeClient) -> AsyncIterator[View]:
    """Follow one node by a watch."""
    async with watch(client) as messages:
        view = View(messages)
        try:
            yield view
        finally:
            await view.leave()


@asynccontextmanager
async def proxying(
    primary: NodeClient, secondaries: Sequence[NodeClient], **settings: Any
) -> AsyncIterator[tuple[TieringProxy, View]]:
    """Follow several nodes by a proxy, with further settings of it."""
    async with TieringProxy(primary, secondaries, **{"watch": watch, **settings}) as proxy:
        view = View(proxy.watch())
        try:
            yield proxy, view
        finally:
            await view.leave()
