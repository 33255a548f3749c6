"""Where the blocks of one or many nodes are, from their events."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kvtier.client.source import Build, Holder, Quality, Source, Space
from kvtier.client.spaces import Spaces
from kvtier.v1.block_pb2 import Position
from kvtier.v1.event_service_pb2 import (
    BlockRemoved,
    BlockStored,
    EventBatch,
    TierCleared,
    TierState,
    WatchEventsResponse,
)
from kvtier.v1.namespace_pb2 import Namespace
from kvtier.wire.hashes import split_hashes
from kvtier.wire.namespaces import MAX_SCOPE_BYTES, fingerprint, problem

_NO_LIMIT = 1 << 63


class BlockKey(NamedTuple):
    """What names a block: the namespace's fingerprint, the group, the scope and the hash."""

    namespace: bytes
    group: int
    scope: bytes
    block_hash: bytes


class _Read(NamedTuple):
    """What an event of blocks is about."""

    holder: Holder
    space: Space
    hashes: Sequence[bytes]


class TierOf(NamedTuple):
    """A tier of a node, by their names."""

    node: str
    tier: str


class PrefixLengths(NamedTuple):
    """How long a prefix of a chain is held, in blocks, up to the first hole.

    Attributes:
        tiers: By node and tier.
        nodes: By node, over the union of its tiers. Nothing is stitched together over nodes.
    """

    tiers: dict[TierOf, int]
    nodes: dict[str, int]


class BlockIndex:
    """A view of what nodes hold, folded from the messages of their event streams.

    A snapshot is built aside and takes the place of the old view at `synced`. A block is kept
    whether or not its parent is known. What makes no sense is counted and passed over, and the
    node's answers are STALE until its next snapshot. When a tier falls SILENT, what it held
    is forgotten.

    Whatever drops a whole tier or node - a clear, a new snapshot, `forget` - is done at once, at
    no cost for each block; the room comes back over the next messages, of any node.

    Attributes:
        bad_events: Parts of messages that could not be applied.
    """

    def __init__(self) -> None:
        self.bad_events = 0
        self._sources: dict[str, Source] = {}
        self._forgotten: set[str] = set()
        self._namespaces: dict[bytes, Namespace] = {}
        self._spaces = Spaces()

    def apply(self, message: WatchEventsResponse) -> None:
        """Take in a message of a node's stream; each node's in their order."""
        if not message.node_id or message.node_id in self._forgotten:
            return
        self._spaces.sweep()
        source = self._sources.get(message.node_id)
        if source is None:
            source = self._sources[message.node_id] = Source.of(message.node_id)
        kind = message.WhichOneof("kind")
        if kind == "state":
            source.note(message.state)
            if message.state.tier_state == TierState.TIER_STATE_SILENT:
                self._silence(source, message.state.tier)
        elif kind == "namespace":
            self._describe(source, message.namespace)
        else:
            self._move(source, message, kind)

    def nodes(self) -> list[str]:
        """Return the ids of the nodes that were heard of."""
        return list(self._sources)

    def tiers(self, node: str) -> list[str]:
        """Return the names of a node's tiers, in the order in which they were heard of."""
        source = self._sources.get(node)
        return list(dict.fromkeys((*source.tier_states, *source.view.holders))) if source else []

    def namespaces(self) -> dict[bytes, Namespace]:
        """Return the namespaces that were described, by fingerprint."""
        return dict(self._namespaces)

    def position(self, node: str) -> Position | None:
        """Return the position that the view of a node is based on; None before it was complete."""
        source = self._sources.get(node)
        if source is None or not source.synced:
            return None
        return Position(epoch=source.epoch, sequence=source.through)

    def quality(self, node: str, tier: str = "") -> Quality:
        """Return how much the view of a node, or of one of its tiers, is worth."""
        source = self._sources.get(node)
        if source is None:
            return Quality.UNKNOWN
        return source.tier_quality(tier) if tier else source.quality

    def count(self, node: str, tier: str) -> int:
        """Return the number of blocks in a tier."""
        holder = self._visible(node, tier)
        return self._spaces.count(holder) if holder is not None else 0

    def blocks(self, node: str, tier: str) -> set[BlockKey]:
        """Return all blocks in a tier; it takes time in proportion to the whole index."""
        holder = self._visible(node, tier)
        if holder is None:
            return set()
        return {
            BlockKey(*space, block_hash)
            for space in holder.spaces
            if (table := self._spaces.get(space)) is not None
            for block_hash in table.blocks(holder)
        }

    def locate(self, key: BlockKey) -> tuple[TierOf, ...]:
        """Return who has a block, whether or not its parent is known."""
        return self.locate_many(key.namespace, key.group, key.scope, (key.block_hash,))[0]

    def locate_many(
        self, namespace: bytes, group: int, scope: bytes, hashes: Sequence[bytes]
    ) -> list[tuple[TierOf, ...]]:
        """Return for each block of one namespace, group and scope who has it.

        Args:
            namespace: The fingerprint.
            group: The KV-cache group.
            scope: The scope.
            hashes: The blocks.
        """
        space = self._spaces.get((namespace, group, scope))
        if space is None:
            return [()] * len(hashes)
        located = space.locate(hashes)
        named = {
            holders: tuple([TierOf(each.build.node, each.tier) for each in holders])
            for holders in set(located)
        }
        return list(map(named.__getitem__, located))

    def held(
        self, node: str, namespace: bytes, group: int, scope: bytes, hashes: Sequence[bytes]
    ) -> list[bool]:
        """Return for each block whether a node holds it, in any of its tiers."""
        space, source = self._spaces.get((namespace, group, scope)), self._sources.get(node)
        if space is None or source is None:
            return [False] * len(hashes)
        return space.held(source.view, hashes)

    def prefix(
        self,
        namespace: bytes,
        group: int,
        scope: bytes,
        hashes: Sequence[bytes],
        *,
        nodes: Iterable[str] | None = None,
    ) -> PrefixLengths:
        """Return how long a prefix of a chain each tier and each node holds.

        Args:
            namespace: The fingerprint.
            group: The KV-cache group.
            scope: The scope.
            hashes: The chain, parent first.
            nodes: Whom to ask about, such as all that are EXACT; None means every node.
        """
        asked = self._sources if nodes is None else [n for n in nodes if n in self._sources]
        views = {self._sources[node].view: node for node in asked}
        lengths = PrefixLengths(
            {TierOf(node, tier): 0 for view, node in views.items() for tier in view.holders},
            dict.fromkeys(asked, 0),
        )
        space = self._spaces.get((namespace, group, scope))
        if space is not None:
            tiers, builds = space.prefixes(hashes, views)
            lengths.tiers.update({TierOf(h.build.node, h.tier): n for h, n in tiers.items()})
            lengths.nodes.update({views[build]: n for build, n in builds.items()})
        return lengths

    def forget(self, node: str) -> None:
        """Drop everything of a node for good: messages of it that are still under way are ignored.

        It takes `welcome` to hear of it again.
        """
        self._forgotten.add(node)
        source = self._sources.pop(node, None)
        if source is not None:
            for build in source.builds():
                self._spaces.drop_build(build)

    def welcome(self, node: str) -> None:
        """Listen to a node that was forgotten, from the next reset of its stream on."""
        self._forgotten.discard(node)

    def _visible(self, node: str, tier: str) -> Holder | None:
        source = self._sources.get(node)
        return source.view.holders.get(tier) if source is not None else None

    def _move(self, source: Source, message: WatchEventsResponse, kind: str | None) -> None:
        """Move a node's view to the position that a message accounts for."""
        begun = source.synced or source.shadow is not None
        if not begun and kind in {"batches", "snapshot", "progress"}:
            # The rest of a stream whose beginning went to nobody.
            self._pass_over(source)
            return
        if kind == "batches":
            for batch in message.batches.batches:
                self._apply_batch(source, batch)
        elif kind == "snapshot":
            for stored in message.snapshot.stored:
                self._store(source, stored)
        elif kind == "reset":
            self._start_over(source)
        elif kind == "synced":
            self._swap(source, message.synced.blocks)
        # While a snapshot is under way the view stays at the position that it was complete at.
        if source.shadow is None:
            source.epoch, source.through = message.epoch, message.through

    def _silence(self, source: Source, tier: str) -> None:
        for build in source.builds():
            holder = build.holders.pop(tier, None)
            if holder is not None:
                self._spaces.drop(holder)

    def _start_over(self, source: Source) -> None:
        if source.shadow is not None:
            self._spaces.drop_build(source.shadow)
        source.shadow = Build(source.node, visible=False)
        source.reachable, source.flawed = True, False
        # The node names its tiers again, before its first page.
        source.tier_states.clear()

    def _swap(self, source: Source, blocks: int) -> None:
        if source.shadow is not None:
            self._spaces.drop_build(source.view)
            source.view, source.shadow = source.shadow, None
            source.view.visible = True
        source.synced = source.reachable = True
        if blocks != sum(self.count(source.node, tier) for tier in source.view.holders):
            self._pass_over(source)

    def _describe(self, source: Source, namespace: Namespace) -> None:
        if problem(namespace, _NO_LIMIT) is None:
            self._namespaces[fingerprint(namespace)] = namespace
        else:
            self._pass_over(source)

    def _apply_batch(self, source: Source, batch: EventBatch) -> None:
        for cleared in batch.cleared:
            self._clear(source, cleared)
        for removed in batch.removed:
            self._remove(source, removed)
        for stored in batch.stored:
            self._store(source, stored)

    def _clear(self, source: Source, event: TierCleared) -> None:
        try:
            holder = source.holder(event.tier)
        except ValueError:
            self._pass_over(source)
            return
        self._spaces.drop(holder, event.namespace)

    def _remove(self, source: Source, event: BlockRemoved) -> None:
        read = self._read(source, event)
        if read is not None:
            self._spaces.remove(*read)

    def _store(self, source: Source, event: BlockStored) -> None:
        read = self._read(source, event)
        if read is not None:
            self._spaces.add(*read)

    def _read(self, source: Source, event: BlockStored | BlockRemoved) -> _Read | None:
        """Return what an event of blocks is about, or None when it makes no sense."""
        try:
            holder, hashes = source.holder(event.tier), self._hashes(event)
        except ValueError:
            self._pass_over(source)
            return None
        return _Read(holder, (event.namespace, event.group, event.scope), hashes)

    def _hashes(self, event: BlockStored | BlockRemoved) -> Sequence[bytes]:
        namespace = self._namespaces.get(event.namespace)
        if namespace is None:
            raise ValueError("the namespace was not described")
        if event.group >= len(namespace.block_bytes) or len(event.scope) > MAX_SCOPE_BYTES:
            raise ValueError("there is no such group, or no such scope")
        hashes = split_hashes(event.block_hashes, namespace.hash_width)
        distinct = set(hashes)
        if not distinct:
            raise ValueError("there is no hash")
        return hashes if len(distinct) == len(hashes) else list(distinct)

    def _pass_over(self, source: Source) -> None:
        self.bad_events += 1
        source.flawed = True
