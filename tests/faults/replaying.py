"""A small cluster of real processes, and requests of a trace that are served through its proxy."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from kvtier.cli.hashing import HASH_WIDTH
from kvtier.cli.replay import Chain, replay_namespace
from kvtier.client import BlockIndex, NodeClient, TieringProxy
from kvtier.client.answers import TierOf
from kvtier.client.proxy import (
    CascadeSettings,
    PromotionSettings,
    ProxyLookup,
    SecondaryOutcome,
)
from kvtier.v1.block_pb2 import BlockRun, BlockSet, Position, RemovalReason
from kvtier.v1.result_pb2 import LookupResult, StoreOutcome, WriteResult
from kvtier.wire.hashes import split_hashes
from tests.contract.folding import listed
from tests.contract.support import BLOCK_BYTES, cpu_tier, fs_tier, gpu_tier
from tests.contract.viewing import View, watch
from tests.waiting import until

from .conftest import StartNode
from .processes import NodeProcess, ready

FAST = "gpu0"
_PRIMARY_TIERS = 2
NAMESPACE = replay_namespace(BLOCK_BYTES)
# A busy machine takes its time, and what fails is tried again soon.
_CASCADES = CascadeSettings(pause=0.1, longest_pause=0.5)
_PROMOTIONS = PromotionSettings(deadline=60, pause=0.1, longest_pause=0.5)
# No copy is given up and nothing goes down ahead of time, so that the order of evictions is given.
_DOWN: dict[str, Any] = {
    "on_evict": "cpu0",
    "free_target": 0,
    "demote_wait": 10,
    "promotion_limit": 1,
}


class Sizes(NamedTuple):
    """How many blocks each tier takes."""

    gpu: int
    cpu: int
    remote: int
    storage: int


@dataclass
class Told:
    """What the merged stream told of one tier."""

    stored: int = 0
    removed: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Served:
    """What became of a request.

    Attributes:
        loaded: The bytes of each block that was to be loaded; None where it did not come.
        stored: Whether each block of the chain was stored, or was there.
        cascade: What became of the chain at each secondary.
    """

    loaded: list[bytes | None]
    stored: list[bool]
    cascade: tuple[SecondaryOutcome, ...]


class Cluster:
    """A primary with memory of two kinds, a node with memory, a node with files, and a proxy.

    Attributes:
        clients: A client of each node, the primary's first.
        tiers: All tiers, in the order in which they are asked.
        proxy: The proxy.
        view: What its merged stream tells.
    """

    def __init__(
        self,
        clients: Sequence[NodeClient],
        tiers: Sequence[TierOf],
        proxy: TieringProxy,
        view: View,
        namespace: bytes,
    ) -> None:
        self.clients = clients
        self.tiers = list(tiers)
        self.proxy = proxy
        self.view = view
        self._namespace = namespace

    async def look_up(self, chain: Chain) -> list[int]:
        """Return which tier, by its number, has each block of the prefix that is found."""
        blocks = [BlockSet(block_hashes=chain.hashes)]
        (found,) = await self.proxy.lookup(self._namespace, blocks)
        return list(self._serving(chain, found))

    async def serve(self, chain: Chain, found: int) -> Served:
        """Load so many blocks of a chain, store all of it, and let it go on."""
        run, request_id = BlockRun(block_hashes=chain.hashes), str(chain.number)
        blocks = [BlockSet(block_hashes=chain.hashes)]
        await self.proxy.touch(self._namespace, blocks, request_id=request_id)
        loaded: Sequence[bytes | None] = ()
        if found:
            prefix = BlockRun(block_hashes=chain.prefix(found))
            load = await self.proxy.load(FAST, self._namespace, [prefix], request_id=request_id)
            loaded = load.payloads
        stored = await self.proxy.store(
            FAST, self._namespace, [run], chain.payloads, request_id=request_id, wait=True
        )
        answers = zip(stored.report.outcomes, stored.report.results, strict=True)
        there = [
            outcome == StoreOutcome.STORE_OUTCOME_PRESENT
            or result == WriteResult.WRITE_RESULT_STORED
            for outcome, result in answers
        ]
        return Served(list(loaded), there, await stored.cascade.wait())

    async def settle(self, *, dead: NodeClient | None = None) -> None:
        """Wait until the proxy and who reads its stream know of everything that happened."""
        for client in self.clients:
            if client is dead:
                continue
            node = await client.get_node()
            for index in (self.proxy.index, self.view.index):
                await until(lambda i=index, n=node: i.position(n.node_id) == n.head)  # type: ignore[misc]

    def tier_of(self, secondary: int) -> int:
        """Return the number of a secondary's tier, by the secondary's place among the nodes."""
        return _PRIMARY_TIERS - 1 + secondary

    def head(self) -> Position | None:
        """Return how far the proxy has followed the primary."""
        return self.proxy.index.position(self.tiers[0].node)

    def told(self) -> list[Told]:
        """Return what the stream told of each tier since it was complete."""
        told = {tier: Told() for tier in self.tiers}
        for message in self.view.messages:
            for batch in message.batches.batches:
                for stored in batch.stored:
                    blocks = len(stored.block_hashes) // HASH_WIDTH
                    told[TierOf(message.node_id, stored.tier)].stored += blocks
                for gone in batch.removed:
                    reason = RemovalReason.Name(gone.reason).removeprefix("REMOVAL_REASON_")
                    blocks = len(gone.block_hashes) // HASH_WIDTH
                    told[TierOf(message.node_id, gone.tier)].removed[reason] += blocks
        return list(told.values())

    def known(self, index: BlockIndex) -> list[set[bytes]]:
        """Return the hashes that an index says are in each tier."""
        return [{key.block_hash for key in index.blocks(*tier)} for tier in self.tiers]

    async def listings(self) -> list[set[bytes]]:
        """Return the hashes that each tier lists."""
        held: dict[TierOf, set[bytes]] = {tier: set() for tier in self.tiers}
        for client in self.clients:
            node_id = (await client.get_node()).node_id
            for key in await listed(client):
                held[TierOf(node_id, key.tier)].add(key.block_hash)
        return list(held.values())

    async def loads_by_tier(self) -> list[int]:
        """Return how many blocks each tier says that it handed out."""
        tiers = [tier for client in self.clients for tier in await client.list_tiers()]
        return [tier.counters.loaded for tier in tiers]

    async def has(self, client: NodeClient, chain: Chain) -> list[bool]:
        """Ask a node itself which blocks of a chain it has."""
        blocks = [BlockSet(block_hashes=chain.hashes)]
        answer = await client.lookup(self._namespace, blocks, include_blocks=True)
        return [each == LookupResult.LOOKUP_RESULT_HIT for each in answer.chains[0].results]

    async def load_from(self, tier: TierOf, hashes: Sequence[bytes]) -> Sequence[bytes | None]:
        """Load blocks from the tier itself, without the proxy."""
        for client in self.clients:
            if (await client.get_node()).node_id == tier.node:
                blocks = [BlockSet(block_hashes=b"".join(hashes))]
                return (await client.load(tier.tier, self._namespace, blocks)).payloads
        raise LookupError(tier)

    def _serving(self, chain: Chain, found: ProxyLookup) -> Iterator[int]:
        """Yield the tier that serves each block, as long as there is one."""
        hashes = split_hashes(chain.hashes, HASH_WIDTH)
        holders = self.view.index.locate_many(self._namespace, 0, b"", hashes)
        nodes = list(dict.fromkeys(tier.node for tier in self.tiers))
        for result, source, held in zip(found.results, found.sources, holders, strict=True):
            if result != LookupResult.LOOKUP_RESULT_HIT:
                return
            assert source is not None
            there = [
                number
                for number, tier in enumerate(self.tiers)
                if tier.node == nodes[source] and tier in held
            ]
            if not there:
                return
            yield there[0]


class Processes(NamedTuple):
    """The nodes' processes."""

    primary: NodeProcess
    remote: NodeProcess
    storage: NodeProcess


async def start_three(start_node: StartNode, folder: Path, sizes: Sizes) -> Processes:
    """Start a primary, a node with memory and a node with files, which may pull from each other."""
    primary = await start_node(tiers=[gpu_tier(sizes.gpu, **_DOWN), cpu_tier(sizes.cpu)])
    peers = [primary.endpoint]
    remote = await start_node(tiers=[cpu_tier(sizes.remote)], peers=peers)
    storage = await start_node(tiers=[fs_tier(sizes.storage, folder)], peers=peers)
    # Only now its peers have addresses.
    await primary.kill()
    primary.config["peers"] = [remote.endpoint, storage.endpoint]
    return Processes(await start_node(primary), remote, storage)


@asynccontextmanager
async def replaying(nodes: Processes) -> AsyncIterator[Cluster]:
    """Follow and manage the nodes by a proxy."""
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(NodeClient(n.endpoint)) for n in nodes]
        tiers: list[TierOf] = []
        for client in clients:
            await ready(client)
            namespace = await client.register_namespace(NAMESPACE)
            node_id = (await client.get_node()).node_id
            tiers += [TierOf(node_id, tier.name) for tier in await client.list_tiers()]
        proxy = await stack.enter_async_context(
            TieringProxy(
                clients[0],
                clients[1:],
                cascades=_CASCADES,
                promotions=_PROMOTIONS,
                watch=watch,
            )
        )
        view = View(proxy.watch())
        stack.push_async_callback(view.leave)
        cluster = Cluster(clients, tiers, proxy, view, namespace)
        await cluster.settle()
        yield cluster
