"""A program that starts with nothing, and knows four nodes by a proxy, in a process of its own."""

import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from multiprocessing.connection import Connection

from benchmarks.events import loops
from kvtier.client import BlockIndex, NodeClient, Quality, TieringProxy


class Joiner:
    """Makes one proxy after the other.

    Args:
        clients: The nodes' clients, the primary's first.
    """

    def __init__(self, clients: Sequence[NodeClient]) -> None:
        self._clients = clients

    async def join(self) -> tuple[float, float]:
        """Return the seconds until one node's view was exact, and until the last one's was.

        The mirror of the secondaries is built meanwhile, and an index of all nodes from the merged
        stream.
        """
        begun = time.monotonic()
        first = 0.0
        index = BlockIndex()
        async with TieringProxy(self._clients[0], self._clients[1:]) as proxy:
            async for message in proxy.watch():
                index.apply(message)
                if message.WhichOneof("kind") != "synced":
                    continue
                first = first or time.monotonic() - begun
                if _exact(index, len(self._clients)) and _exact(
                    proxy.mirror, len(self._clients) - 1
                ):
                    break
        return first, time.monotonic() - begun


def _exact(index: BlockIndex, nodes: int) -> bool:
    known = index.nodes()
    return len(known) == nodes and all(index.quality(n) is Quality.EXACT for n in known)


def main(pipe: Connection, addresses: Sequence[str]) -> None:
    """Join the nodes at these addresses."""
    loops.run(_serve, pipe, addresses)


async def _serve(pipe: Connection, addresses: Sequence[str]) -> None:
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(NodeClient(each)) for each in addresses]
        await loops.obey(pipe, Joiner(clients))
