"""A node that starts anew again and again, and tells the ledger all that it tells its log."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from kvtier.client import NodeClient
from kvtier.server.clock import ManualClock
from kvtier.server.config import NodeConfig
from kvtier.server.events.parts import CLEARED, REMOVED, STORED, Part
from kvtier.server.lifecycle import TierServer
from kvtier.v1.event_service_pb2 import EventBatch
from kvtier.v1.namespace_pb2 import Namespace
from tests.contract.folding import Facts, Key, listed
from tests.contract.support import cpu_tier, gpu_tier

from .blocks import Name, Names, Space, payloads
from .ledger import Ledger, Life
from .relay import HoldingRelay

# One of the three tells followers nothing.
SILENT_TIER = "dark0"
TIERS = (gpu_tier(12, "gpu0"), cpu_tier(40, "cpu0"), cpu_tier(8, SILENT_TIER, events=False))
TOLD_TIERS = ("gpu0", "cpu0")
_FIELDS = {CLEARED: "cleared", REMOVED: "removed", STORED: "stored"}


class PathNode:
    """One node over all its lives.

    Args:
        node_id: Its id.
        ledger: Where its lives are written down.
        events: The settings of its log and its followers.

    Attributes:
        life: The life of now.
        client: A client that reaches it without a relay.
        relays: The relays that lead to it.
    """

    def __init__(self, node_id: str, ledger: Ledger, events: Mapping[str, object]) -> None:
        self.node_id = node_id
        self.relays: list[HoldingRelay] = []
        self._ledger = ledger
        self._names = Names()
        self._registered: set[bytes] = set()
        self._config = NodeConfig.model_validate(
            {
                "node_id": node_id,
                "listen": "127.0.0.1:0",
                "tiers": TIERS,
                "drain_timeout": 0,
                "events": events,
            }
        )
        self._life = AsyncExitStack()
        self.life: Life
        self.client: NodeClient
        self._server: TierServer

    async def start(self) -> None:
        """Begin a life, and lead the relays to it."""
        self._server = TierServer(self._config, ManualClock())
        self._life.push_async_callback(self._server.drain_and_stop)
        await self._server.start()
        self._registered.clear()
        self.client = await self._life.enter_async_context(NodeClient(self._server.address))
        log = self._server.node.log
        self.life = Life(
            self.node_id,
            log.epoch,
            ring=self._config.events.max_batches,
            contents=await listed(self.client, *TOLD_TIERS),
        )
        self._ledger.begin(self.life)
        self._write_down()
        for relay in self.relays:
            relay.target = self._server.address

    @asynccontextmanager
    async def relayed(self) -> AsyncIterator[HoldingRelay]:
        """Lay a relay to the node, through all of its lives."""
        async with HoldingRelay() as relay:
            relay.target = self._server.address
            self.relays.append(relay)
            yield relay
            self.relays.remove(relay)

    async def stop(self, *, kill: bool) -> None:
        """End the life: by a drain, or at once and with broken connections."""
        if kill:
            self._server.hurry()
            for relay in self.relays:
                relay.target = ""
                relay.reset()
        await self._life.aclose()

    async def store(self, tier: str, space: Space, names: list[Name]) -> None:
        """Store blocks of one chain."""
        self._names.note(space, names)
        await self.register(space)
        runs = [space.run(names)]
        await self.client.store(tier, space.fingerprint, runs, payloads(names))

    async def store_in_vain(self, tier: str, space: Space, names: list[Name]) -> None:
        """Reserve room for blocks, which may evict others, and give it back."""
        await self.register(space)
        prepared = await self.client.prepare_store(tier, space.fingerprint, [space.run(names)])
        if prepared.HasField("lease"):
            await self.client.complete_store(prepared.lease, failed=True)

    async def store_again(self, contents: Sequence[Key]) -> None:
        """Store blocks of an earlier life, as their owner does who finds them gone."""
        for key in sorted(contents, key=lambda key: len(self._names.of(key)[1])):
            space, name = self._names.of(key)
            await self.store(key.tier, space, [name])

    async def contents(self) -> dict[Key, Facts]:
        """Return what the node lists, in the tiers that tell followers of it."""
        return await listed(self.client, *TOLD_TIERS)

    async def register(self, space: Space) -> None:
        """Make a space's namespace known, once in each life."""
        if space.fingerprint not in self._registered:
            self._registered.add(await self.client.register_namespace(space.namespace))

    async def delete_namespace(self, space: Space) -> None:
        """Have a space's namespace deleted, with all its blocks."""
        await self.register(space)
        await self.client.delete_namespace(space.fingerprint)
        self._registered.discard(space.fingerprint)

    def _write_down(self) -> None:
        node, life = self._server.node, self.life
        append = node.log.append
        described = 0

        def recorded(parts: Sequence[Part]) -> int:
            nonlocal described
            described, news = node.namespaces(described, node.log.head)
            life.describe(Namespace.FromString(description) for _, description in news)
            basic, full = (_batch(life.head + 1, parts, view) for view in ("basic", "full"))
            life.append(basic, full)
            return append(parts)

        node.log.append = recorded  # type: ignore[method-assign]  # the truth, where it comes from


async def start_all(nodes: Sequence[PathNode]) -> None:
    """Begin the first life of each."""
    await asyncio.gather(*(node.start() for node in nodes))


def _batch(sequence: int, parts: Sequence[Part], view: str) -> EventBatch:
    batch = EventBatch(sequence=sequence)
    for part in parts:
        getattr(batch, _FIELDS[part.field]).add().MergeFromString(getattr(part, view))
    return batch
