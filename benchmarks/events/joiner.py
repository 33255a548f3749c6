"""A program that starts with nothing, and knows four nodes by a proxy, in a process of its own."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from multiprocessing.connection import Connection

from benchmarks.events import loops
from kvtier.client import BlockIndex, NodeClient, Quality, TieringProxy, Watch


class Joiner:
    """Makes one proxy after the other.

    Args:
        clients: The nodes' clients, the primary's first.
    """

    def __init__(self, clients: Sequence[NodeClient]) -> None:
        self._clients = clients

    async def join(self) -> tuple[float, float]:
        """Return the seconds until one node's view was exact, and until the last one's was.

        The merged stream is read meanwhile.
        """
        begun = time.monotonic()
        first = 0.0
        async with TieringProxy(self._clients[0], self._clients[1:]) as proxy:
            async for message in proxy.watch():
                if message.WhichOneof("kind") != "synced":
                    continue
                first = first or time.monotonic() - begun
                if _exact(proxy.index, len(self._clients)):
                    break
        return first, time.monotonic() - begun

    async def follow(self) -> tuple[float, float]:
        """Start a proxy process, and return the same seconds of a follower of it."""
        begun = time.monotonic()
        first, index = 0.0, BlockIndex()
        async with _process(self._clients) as address:
            async with NodeClient(address) as client, Watch(client) as watch:
                async for message in watch:
                    index.apply(message)
                    if message.WhichOneof("kind") != "synced":
                        continue
                    first = first or time.monotonic() - begun
                    if _exact(index, len(self._clients)):
                        break
            return first, time.monotonic() - begun


@asynccontextmanager
async def _process(clients: Sequence[NodeClient]) -> AsyncIterator[str]:
    """Run a proxy over nodes, and give its address."""
    primary, *secondaries = [client.endpoint for client in clients]
    options = [option for each in secondaries for option in ("--secondary", each)]
    command = (sys.executable, "-m", "kvtier.proxy", "--listen", "127.0.0.1:0")
    # uvloop's way to start a process forks, of which gRPC complains.
    with subprocess.Popen(  # noqa: ASYNC220 - it takes a millisecond
        (*command, "--log-level", "error", "--primary", primary, *options), stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            yield json.loads(await asyncio.to_thread(process.stdout.readline))["listen"]
        finally:
            process.terminate()
            await asyncio.to_thread(process.wait)


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
