"""A whole proxy over real nodes that may pull from each other."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from kvtier.client import ProxyLookup, TieringProxy
from kvtier.client.proxy.cascades.storing import ProxyStore
from kvtier.v1.result_pb2 import CopyResult, LookupResult
from tests.waiting import until

from .managed import befriend
from .support import Serving, blocks_of, payloads, run, words
from .viewing import View, proxying


class Proxied:
    """Nodes, a proxy over them, and short words for what goes through it.

    Attributes:
        nodes: The nodes, the primary first.
        proxy: The proxy.
        view: What the reader of the merged stream knows.
    """

    def __init__(self, nodes: Sequence[Serving], proxy: TieringProxy, view: View) -> None:
        self.nodes = list(nodes)
        self.proxy = proxy
        self.view = view

    @property
    def primary(self) -> Serving:
        return self.nodes[0]

    @property
    def namespace(self) -> bytes:
        return self.primary.namespace

    async def settle(self) -> None:
        """Wait until everything that happened so far came through the merged stream."""
        for node in self.nodes:
            await self.view.settle(node.client)

    async def store(self, *blocks: object, tier: str = "cpu0", **more: Any) -> ProxyStore:
        """Store blocks as one chain; return once they are wherever they go."""
        return await self.proxy.store(
            tier, self.namespace, [run(*blocks)], payloads(*blocks), wait=True, **more
        )

    async def load(self, *blocks: object, tier: str = "cpu0", **more: Any) -> list[bytes | None]:
        """Load blocks as one chain; return their bytes."""
        report = await self.proxy.load(tier, self.namespace, [run(*blocks)], **more)
        return list(report.payloads)

    async def find(self, *blocks: object) -> ProxyLookup:
        """Look up blocks as one chain."""
        (found,) = await self.proxy.lookup(self.namespace, [blocks_of(*blocks)])
        return found

    async def look_up(self, *blocks: object) -> list[str]:
        """Return what a lookup says of each block, such as HIT."""
        return words(LookupResult, (await self.find(*blocks)).results)

    def known(self, node: Serving, tier: str = "cpu0") -> set[bytes]:
        """The hashes that a tier holds, as the proxy's own index and its reader's both say."""
        keys = self.proxy.index.blocks(node.node.node_id, tier)
        assert self.view.index.blocks(node.node.node_id, tier) == keys
        return {key.block_hash for key in keys}

    def told(self, node: Serving) -> list[tuple[str, str, bytes]]:
        """What a node told of blocks since it was in sync: what, in which tier, which hashes."""
        return [
            (what, each.tier, each.block_hashes)
            for message in self.view.messages
            if message.node_id == node.node.node_id
            for batch in message.batches.batches
            for what, events in (("removed", batch.removed), ("stored", batch.stored))
            for each in events
        ]

    async def are_known(self) -> None:
        """See that what is known of every tier of every node is what the node lists."""
        await self.settle()
        for node in self.nodes:
            for tier in await node.client.list_tiers():
                assert self.known(node, tier.name) == await node.held(tier.name)


@asynccontextmanager
async def proxied(nodes: Sequence[Serving], **settings: Any) -> AsyncIterator[Proxied]:
    """Put a proxy over nodes, the primary first; all are in sync when it is given."""
    for node in nodes:
        befriend(node, [each.endpoint for each in nodes if each is not node])
    primary, *secondaries = (node.client for node in nodes)
    async with proxying(primary, secondaries, **settings) as (proxy, view):
        names = [node.node.node_id for node in nodes]
        await until(lambda: all(map(proxy.members.trusts, names)))
        whole = Proxied(nodes, proxy, view)
        await whole.settle()
        yield whole


async def copied(stored: ProxyStore) -> list[list[str]]:
    """What became of each block of a store at each secondary."""
    return [words(CopyResult, each.results) for each in await stored.cascade.wait()]


def hashes_of(told: Sequence[tuple[str, str, bytes]], what: str, tier: str) -> bytes:
    """The hashes of which something was told of a tier, one after the other."""
    return b"".join(hashes for event, where, hashes in told if (event, where) == (what, tier))
