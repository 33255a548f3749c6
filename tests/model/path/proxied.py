"""A program that follows all nodes through a proxy, by its one merged stream."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Self

from kvtier.client import BlockIndex, NodeClient, TieringProxy, Watch
from kvtier.v1.block_pb2 import BlockSet
from kvtier.v1.event_service_pb2 import WatchEventsResponse
from kvtier.v1.result_pb2 import LookupResult
from tests.contract.support import block_hash, words

from .auditor import Auditor
from .blocks import SPACES
from .ledger import Ledger
from .nodes import PathNode
from .reading import Reader, check_watch, quick_watch
from .views import Contents, check_view, in_step, where

if TYPE_CHECKING:
    from .relay import HoldingRelay

# So little that a reader who stands still for a moment misses messages.
_BUFFER_BYTES = 16 << 10
_PATIENCE = 0.05
_ABSENT = block_hash("absent")


class Proxied:
    """The proxy, and who reads it: by `watch()`, and now and then by `take_events()`.

    Attributes:
        index: What the merged stream tells of all nodes.
        reader: Reads it.
        relays: What lies between the proxy and each node, the primary first.
    """

    def __init__(self, nodes: Sequence[PathNode], ledger: Ledger) -> None:
        self.index = BlockIndex()
        self.reader = Reader()
        self.relays: list[HoldingRelay] = []
        self._nodes = nodes
        self._auditors = {node.node_id: Auditor(ledger, drops=True) for node in nodes}
        self._watches: list[Watch] = []
        self._open = AsyncExitStack()
        self._proxy: TieringProxy

    async def __aenter__(self) -> Self:
        clients = []
        for node in self._nodes:
            relay = await self._open.enter_async_context(node.relayed())
            self.relays.append(relay)
            clients.append(await self._open.enter_async_context(NodeClient(relay.endpoint)))
        self._proxy = await self._open.enter_async_context(
            TieringProxy(
                clients[0],
                clients[1:],
                watch=self._watch,
                quota=8,
                buffer_bytes=_BUFFER_BYTES,
                patience=_PATIENCE,
            )
        )
        self.reader.begin(self._read())
        self._open.push_async_callback(self.reader.end)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    def take_now(self) -> None:
        """Take all that there is, while the other reader waits."""
        assert not self.reader.may_read.is_set()
        for message in self._proxy.take_events():
            self._take(message)

    def check(self) -> None:
        """Raise what a message did wrong."""
        self.reader.check()
        for watch in self._watches:
            check_watch(watch)

    async def settle(self) -> None:
        """Read on until the merged stream and the mirror know all of every node."""
        for relay in self.relays:
            relay.go_on()
        self.reader.may_read.set()
        for node in self._nodes:
            for index in (self.index, self._proxy.index):
                await self.reader.until(partial(in_step, index, node), partial(where, index, node))

    async def settle_mirror(self) -> None:
        """Wait until the mirror knows all and is right, also while nobody reads the stream."""
        for relay in self.relays:
            relay.go_on()
        while not self._mirrored():  # noqa: ASYNC110 - the mirror tells nobody
            await asyncio.sleep(0.005)
        held = {node.node_id: node.life.holds[-1] for node in self._nodes}
        check_view(self._proxy.index, self._nodes, held, silent=True)

    def compare(self, contents: Contents) -> None:
        """Fail unless the merged stream and the mirror say what the nodes list."""
        check_view(self.index, self._nodes, contents, silent=True)
        check_view(self._proxy.index, self._nodes, contents, silent=True)
        assert set(self._proxy.index.nodes()) == {node.node_id for node in self._nodes}

    async def compare_lookups(self, contents: Contents) -> None:
        """Fail unless lookups find what is listed, at the first node that has it."""
        chains: defaultdict[tuple[bytes, int, bytes], set[bytes]] = defaultdict(set)
        for key in (key for held in contents.values() for key in held):
            chains[key[1:4]].add(key.block_hash)
        for space in SPACES:
            name = (space.fingerprint, space.group, space.scope)
            await self._nodes[0].register(space)
            await self._look_up(name, [*chains[name]], contents)

    async def _look_up(
        self, name: tuple[bytes, int, bytes], held: Sequence[bytes], contents: Contents
    ) -> None:
        fingerprint, group, scope = name
        asked = [*held, _ABSENT[: len(held[0])]] if held else []
        if not asked:
            return
        blocks = BlockSet(group=group, scope=scope, block_hashes=b"".join(asked))
        (answer,) = await self._proxy.lookup(fingerprint, [blocks])
        while not self._mirrored():
            # A connection that was cut before may be missed only now.
            await self.settle()
            (answer,) = await self._proxy.lookup(fingerprint, [blocks])
        assert words(LookupResult, answer.results) == ["HIT"] * len(held) + ["MISS"]
        for one, source in zip(held, answer.sources, strict=False):
            holders = [
                place
                for place, node in enumerate(self._nodes)
                if any(key[1:] == (*name, one) for key in contents[node.node_id])
            ]
            # The primary is asked itself, and so knows also of what its silent tier has.
            assert source in {0, holders[0]}

    def seen(self) -> Counter[str]:
        """Return how often each kind of thing happened."""
        return sum((auditor.seen for auditor in self._auditors.values()), Counter())

    def _mirrored(self) -> bool:
        return all(in_step(self._proxy.index, node) for node in self._nodes)

    def _watch(self, client: NodeClient) -> Watch:
        self._watches.append(quick_watch(client))
        return self._watches[-1]

    async def _read(self) -> None:
        messages = aiter(self._proxy.watch())
        while True:
            await self.reader.may_read.wait()
            self._take(await anext(messages))

    def _take(self, message: WatchEventsResponse) -> None:
        if message.node_id:
            self._auditors[message.node_id].take(message)
            self.index.apply(message)
        self.reader.moved()
