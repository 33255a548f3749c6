"""A primary and secondaries that a proxy manages, over real nodes that may pull from each other."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import patch

from kvtier.client import BlockIndex, NodeClient, TieringProxy
from kvtier.client.proxy.following.feed import Standing
from kvtier.client.proxy.following.members import Member
from kvtier.client.proxy.managing import Managing
from kvtier.client.proxy.settings import CascadeSettings, PromotionSettings
from kvtier.server.channel_options import peer_options
from kvtier.server.peers.peer import Peer
from kvtier.server.peers.peers import Peers
from kvtier.v1.event_service_pb2 import SourceState
from kvtier.v1.result_pb2 import LookupResult
from tests.waiting import until

from .copying import nothing_is_held
from .support import Serving, payloads, run, words
from .viewing import watch


class Managed:
    """Nodes and a proxy over them.

    Attributes:
        nodes: The nodes, the primary first.
        proxy: The proxy.
    """

    def __init__(self, nodes: Sequence[Serving], proxy: TieringProxy) -> None:
        self.nodes = list(nodes)
        self.proxy = proxy

    @property
    def managing(self) -> Managing:
        return self.proxy.managing

    @property
    def index(self) -> BlockIndex:
        return self.proxy.index

    @property
    def primary(self) -> Member:
        return self.proxy.members.primary

    @property
    def secondaries(self) -> Sequence[Member]:
        return self.proxy.members.secondaries

    @property
    def namespace(self) -> bytes:
        return self.nodes[0].namespace

    async def settle(self) -> None:
        """Wait until everything that happened so far is in the index."""
        for node in self.nodes:
            described = await node.client.get_node()
            await until(lambda d=described: self.index.position(d.node_id) == d.head)  # type: ignore[misc]

    async def store(self, *blocks: object, **more: Any) -> Any:
        """Store blocks as one chain."""
        return await self.proxy.store(
            "cpu0", self.namespace, [run(*blocks)], payloads(*blocks), **more
        )

    async def load(self, *blocks: object, **more: Any) -> list[bytes | None]:
        """Load blocks as one chain; return their bytes."""
        report = await self.proxy.load("cpu0", self.namespace, [run(*blocks)], **more)
        return list(report.payloads)

    async def prepare(self, *blocks: object, **more: Any) -> list[str]:
        """Pin blocks as one chain, and let go of them again; return what was said of each."""
        answer = await self.proxy.prepare_load("cpu0", self.namespace, [run(*blocks)], **more)
        # Who leaves now leaves no lease behind either.
        release = self.primary.client.release_leases([answer.lease])
        await asyncio.shield(asyncio.ensure_future(release))
        return words(LookupResult, answer.results)

    async def nothing_is_left(self) -> None:
        """Wait until no node holds a lease, a slot or a transfer, and nothing is on its way."""
        await until(lambda: not self.managing.promotions.under_way)
        for node in self.nodes:
            await until(lambda n=node: not len(n.node.leases) and not n.node.transfers)  # type: ignore[misc]
            nothing_is_held(node)
        await until(lambda: not _at_work())


@asynccontextmanager
async def managing(
    nodes: Sequence[Serving],
    *,
    clients: Sequence[NodeClient] = (),
    cascades: CascadeSettings | None = None,
    promotions: PromotionSettings | None = None,
) -> AsyncIterator[Managed]:
    """Manage nodes that may pull from each other; what they hold is known when they are given.

    With clients, these reach the nodes in the place of the nodes' own.
    """
    clients = clients or [node.client for node in nodes]
    for node, own in zip(nodes, clients, strict=True):
        befriend(node, [each.endpoint for each in clients if each is not own])
    proxy = TieringProxy(
        clients[0], clients[1:], watch=watch, cascades=cascades, promotions=promotions
    )
    async with proxy:
        managed = Managed(nodes, proxy)
        await managed.settle()
        yield managed


def befriend(node: Serving, endpoints: Sequence[str]) -> None:
    """Let a node pull from addresses that were not known when it was started."""
    config = node.node.config
    node.node.peers = Peers(
        node.endpoint,
        endpoints,
        timeout=config.peer_timeout,
        pause=config.peer_pause,
        options=peer_options(config.limits),
    )


@asynccontextmanager
async def counting_pulls() -> AsyncIterator[list[str]]:
    """Note the address of every read from a peer, of all nodes."""
    pulled: list[str] = []
    reading = Peer.reading

    def note(peer: Peer, request: Any) -> Any:
        pulled.append(peer.endpoint)
        return reading(peer, request)

    with patch.object(Peer, "reading", note):
        yield pulled


@asynccontextmanager
async def holding_up(*nodes: Serving) -> AsyncIterator[asyncio.Event]:
    """Hold up what these nodes pull, until the event that is given is set."""
    gate = asyncio.Event()
    held = {id(peer) for node in nodes for peer in node.node.peers._peers.values()}
    reading = Peer.reading

    @asynccontextmanager
    async def wait_and_read(peer: Peer, request: Any) -> AsyncIterator[Any]:
        if id(peer) in held:
            await gate.wait()
        async with reading(peer, request) as call:
            yield call

    with patch.object(Peer, "reading", wait_and_read):
        yield gate


def _at_work() -> set[str]:
    """The tasks that cascades, promotions and leases have."""
    names = {getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks()}
    mine = ("Lane.", "Flight.", "Loading.", "_release", "_renew")
    return {name for name in names if name.startswith(mine)}


def call_down(member: Member, reason: str = "") -> Standing:
    """Let a member be DOWN, as its feed would say; return what may be put right again."""
    (standing,) = member.mirror.nodes.values()
    standing.state, standing.reason = SourceState.SOURCE_STATE_DOWN, reason
    return standing
