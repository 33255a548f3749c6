"""A primary and two secondaries behind one proxy, and what the proxy tells of them."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from itertools import groupby
from typing import Any, NamedTuple

from kvtier.client import CascadeSettings, NodeClient, ProxyLookup, TieringProxy, Watch
from kvtier.client.proxy.cascades.storing import ProxyStore
from kvtier.v1.event_service_pb2 import WatchEventsResponse
from kvtier.v1.result_pb2 import LookupResult
from kvtier.wire.hashes import split_hashes
from tests.contract.copying import nothing_is_held
from tests.contract.managed import befriend
from tests.contract.support import (
    WIDTH,
    Serving,
    block_hash,
    blocks_of,
    payloads,
    run,
    words,
)
from tests.waiting import until

NAMES = ("P", "S1", "S2")
PATIENCE = 10.0
# A copy that failed is tried again in the next step of a test.
CASCADES = CascadeSettings(pause=0.001, longest_pause=0.001)
_BLOCKS = {block_hash(block): block for block in range(100)}


class Told(NamedTuple):
    """What one source said of one kind before anything else: who told it, and of which blocks.

    Blocks that are copied are told as they come, so that their batches differ from run to run.
    """

    source: str
    kind: str
    blocks: tuple[int, ...]


class CountingWatch(Watch):
    """A watch that remembers how far its reader has come."""

    def __init__(self, client: NodeClient) -> None:
        super().__init__(client)
        self._through = -1
        self._moved = asyncio.Event()

    async def reach(self, sequence: int) -> None:
        """Wait until the reader has come to a sequence."""
        async with asyncio.timeout(PATIENCE):
            while self._through < sequence:
                self._moved.clear()
                await self._moved.wait()

    async def __anext__(self) -> WatchEventsResponse:
        message = await super().__anext__()
        if message.WhichOneof("kind") in {"synced", "batches", "progress"}:
            self._through = message.through
            self._moved.set()
        return message


class Cluster:
    """Three nodes and a proxy over them.

    Attributes:
        primary: The proxy's primary, P.
        first: The first secondary, S1.
        second: The second secondary, S2.
        proxy: The proxy.
    """

    def __init__(
        self, nodes: Sequence[Serving], proxy: TieringProxy, watches: Sequence[CountingWatch]
    ) -> None:
        self.primary, self.first, self.second = self.nodes = tuple(nodes)
        self.proxy = proxy
        self._watches = watches
        self._node_names: dict[str, str] = {}

    async def take(self) -> list[WatchEventsResponse]:
        """Wait until everything that happened so far has reached the proxy, and take it at once."""
        for name, node, watch in zip(NAMES, self.nodes, self._watches, strict=True):
            described = await node.client.get_node()
            self._node_names[described.node_id] = name
            await watch.reach(described.head.sequence)
        return self.proxy.take_events()

    async def events(self) -> list[Told]:
        """Take what the proxy has, and return the block events in it, in order."""
        told = [
            Told(self._node_names[message.node_id], kind, blocks)
            for message in await self.take()
            for batch in message.batches.batches
            for kind, blocks in (
                ("cleared", tuple(0 for _ in batch.cleared)),
                ("removed", _blocks(each.block_hashes for each in batch.removed)),
                ("stored", _blocks(each.block_hashes for each in batch.stored)),
            )
            if blocks
        ]
        return [
            Told(source, kind, tuple(block for each in group for block in each.blocks))
            for (source, kind), group in groupby(told, key=lambda each: each[:2])
        ]

    async def store(self, *blocks: int, **more: Any) -> ProxyStore:
        """Store a chain through the proxy."""
        return await self.proxy.store(
            "cpu0", self.primary.namespace, [run(*blocks)], payloads(*blocks), **more
        )

    async def load(self, *blocks: int, **more: Any) -> list[str]:
        """Pin a chain through the proxy, and let go of it; return what was said of each block."""
        answer = await self.proxy.prepare_load(
            "cpu0", self.primary.namespace, [run(*blocks)], **more
        )
        await self.primary.client.release_leases([answer.lease])
        return words(LookupResult, answer.results)

    async def is_quiet(self) -> None:
        """Wait until nothing is on its way, and see that no node holds anything for it."""
        await until(lambda: not self.proxy.managing.promotions.under_way)
        for node in self.nodes:
            await until(lambda n=node: not len(n.node.leases) and not n.node.transfers)  # type: ignore[misc]
            nothing_is_held(node)

    async def look_up(self, *blocks: int) -> ProxyLookup:
        """Ask the proxy for a chain."""
        (answer,) = await self.proxy.lookup(self.primary.namespace, [blocks_of(*blocks)])
        return answer

    async def results(self, *blocks: int) -> list[str]:
        """Ask the proxy for a chain; return what it says of each block, such as HIT."""
        return words(LookupResult, (await self.look_up(*blocks)).results)


@asynccontextmanager
async def clustered(nodes: Sequence[Serving]) -> AsyncIterator[Cluster]:
    """Put a proxy over three nodes; it is in sync, and what came before is taken."""
    watches: list[CountingWatch] = []

    def watch(client: NodeClient) -> CountingWatch:
        watches.append(CountingWatch(client))
        return watches[-1]

    for node in nodes:
        befriend(node, [each.endpoint for each in nodes if each is not node])
    primary, *secondaries = (node.client for node in nodes)
    async with TieringProxy(primary, secondaries, watch=watch, cascades=CASCADES) as proxy:
        cluster = Cluster(nodes, proxy, watches)
        await cluster.take()
        yield cluster


def _blocks(packed: Iterable[bytes]) -> tuple[int, ...]:
    return tuple(_BLOCKS[each] for hashes in packed for each in split_hashes(hashes, WIDTH))
