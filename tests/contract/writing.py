"""Writers that keep a node busy while a test looks at its followers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

from .support import Serving, blocks_of, payloads, run


class Writers:
    """Counts what several writers did.

    Attributes:
        calls: Calls so far, by all of them.
    """

    def __init__(self) -> None:
        self.calls = 0

    async def write(self, node: Serving, writer: int, tier: str) -> None:
        """Store chains that evict older ones, and delete some of their blocks, without end."""
        for step in count():
            chain = [(writer, step, place) for place in range(8)]
            await node.client.store(tier, node.namespace, [run(*chain)], payloads(*chain))
            if step % 3 == 0:
                await node.client.delete(node.namespace, [blocks_of(*chain[5:])])
            self.calls += 1


@asynccontextmanager
async def writing(node: Serving, *tiers: str) -> AsyncIterator[Writers]:
    """Write into tiers, one writer each, until the body ends."""
    writers = Writers()
    tasks = [
        asyncio.create_task(writers.write(node, place, tier)) for place, tier in enumerate(tiers)
    ]
    try:
        yield writers
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
