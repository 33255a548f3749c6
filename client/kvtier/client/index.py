"""Where the blocks of one or many nodes are, from their events."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kvtier.client.answers import BestCopies, BlockKey, PrefixLengths, TierOf, prefix_lengths
from kvtier.client.source import Build, Holder, Quality, Source, Space, TierInfo, is_removal
from kvtier.client.spaces import Spaces
from kvtier.v1.block_pb2 import Medium, Position
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


class _Read(NamedTuple):
    """What an event of blocks is about."""

    holder: Holder
    space: Space
    hashes: Sequence[bytes]


class BlockIndex:
    """A view of what nodes hold, folded from the messages of their event streams.

    A snapshot is built aside and takes the place of the old view at `synced`. A block is kept
    whether or not its parent is known. What makes no sense is counted and passed over, and the
    node's answers are STALE until its next snapshot. When a tier falls SILENT, what it held
    is forgotten. A tier that is RECOVERING may have more than it has told: what is known of it
    is there, and its answers are STALE, though those of its node are not. A node whose source is
    REMOVED is forgotten, and heard of again from its next reset on.

    Whatever drops a whole tier or node - a clear, a new snapshot, `forget` - is done at once, at
    no cost for each block; the room comes back over the next messages, of any node.

    Attributes:
        bad_events: Parts of messages that could not be applied.
    """

    def __init__(self) -> None:
        self.bad_events = 0
        self._sources: dict[str, Source] = {}
        self._forgotten: set[str] = set()
        self._removed: set[str] = set()
        self._namespaces: dict[bytes, Namespace] = {}
        self._spaces = Spaces()

    def apply(self, message: WatchEventsResponse) -> None:
        """Take in a message of a node's stream; each node's in their order."""
        if not message.node_id or message.node_id in self._forgotten:
            return
        self._spaces.sweep()
        kind = message.WhichOneof("kind")
        if not self._is_there(message, kind):
            return
        source = self._sources.get(message.node_id)
        if source is None:
            source = self._sources[message.node_id] = Source.of(message.node_id)
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

    def tier_info(self, node: str, tier: str) -> TierInfo:
        """Return what a node's tier is made of, as far as the node told."""
        source = self._sources.get(node)
        return source.tier_info(tier) if source is not None else TierInfo()

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

    def recovering(self, node: str) -> list[str]:
        """Return the tiers of a node that are still finding out what they hold."""
        source = self._sources.get(node)
        return source.recovering if source is not None else []

    def count(self, node: str, tier: str) -> int:
        """Return the number of blocks in a tier."""
        holder = self._visible(node, tier)
        return self._spaces.count(holder) if holder is not None else 0

    def counts(self, node: str) -> dict[tuple[str, bytes], int]:
        """Return the number of blocks of a node by tier and namespace's fingerprint."""
        source = self._sources.get(node)
        counts: Counter[tuple[str, bytes]] = Counter()
        for tier, holder in source.view.holders.items() if source is not None else ():
            for space, count in self._spaces.counts(holder):
                counts[tier, space[0]] += count
        return counts

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

    def masks(
        self,
        namespace: bytes,
        group: int,
        scope: bytes,
        hashes: Sequence[bytes],
        tiers: Sequence[TierOf],
    ) -> list[int]:
        """Return for each block which of some tiers hold it, bit i for the tier at place i.

        Args:
            namespace: The fingerprint.
            group: The KV-cache group.
            scope: The scope.
            hashes: The blocks.
            tiers: Whom to ask about; any number.
        """
        space = self._spaces.get((namespace, group, scope))
        if space is None:
            return [0] * len(hashes)
        return space.masks(hashes, [self._visible(*tier) for tier in tiers])

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
        views = self._views(nodes)
        space = self._spaces.get((namespace, group, scope))
        if space is None:
            return prefix_lengths(views, {}, {})
        return prefix_lengths(views, *space.prefixes(hashes, views))

    def best_copies(
        self,
        namespace: bytes,
        group: int,
        scope: bytes,
        hashes: Sequence[bytes],
        media: Sequence[Medium.ValueType],
        *,
        nodes: Iterable[str] | None = None,
    ) -> BestCopies:
        """Return how long a prefix of a chain each node holds, and how good its copies are.

        It walks the table once, as `prefix` does.

        Args:
            namespace: The fingerprint.
            group: The KV-cache group.
            scope: The scope.
            hashes: The chain, parent first.
            media: The media that count, the best one first.
            nodes: Whom to ask about, such as all that are EXACT; None means every node.
        """
        views = self._views(nodes)
        none = {node: dict.fromkeys(media, 0) for node in views.values()}
        space = self._spaces.get((namespace, group, scope))
        if space is None:
            return BestCopies(prefix_lengths(views, {}, {}), none)
        classes = [self._holders_on(medium, views) for medium in media]
        tiers, builds, counts = space.best_copies(hashes, views, classes)
        found = {views[build]: dict(zip(media, n, strict=True)) for build, n in counts.items()}
        return BestCopies(prefix_lengths(views, tiers, builds), none | found)

    def forget(self, node: str) -> None:
        """Drop everything of a node for good: messages of it that are still under way are ignored.

        It takes `welcome` to hear of it again.
        """
        self._forgotten.add(node)
        self._drop(node)

    def welcome(self, node: str) -> None:
        """Listen to a node that was forgotten, from the next reset of its stream on."""
        self._forgotten.discard(node)

    def _is_there(self, message: WatchEventsResponse, kind: str | None) -> bool:
        """Tell whether a message counts, and drop a node that it says was removed."""
        node = message.node_id
        if kind == "reset":
            self._removed.discard(node)
        elif kind == "state" and is_removal(message.state):
            self._removed.add(node)
            self._drop(node)
        return node not in self._removed

    def _drop(self, node: str) -> None:
        source = self._sources.pop(node, None)
        if source is not None:
            for build in source.builds():
                self._spaces.drop_build(build)

    def _views(self, nodes: Iterable[str] | None) -> dict[Build, str]:
        """Return what queries see of nodes that were heard of."""
        asked = self._sources if nodes is None else [n for n in nodes if n in self._sources]
        return {self._sources[node].view: node for node in asked}

    def _holders_on(self, medium: Medium.ValueType, views: Iterable[Build]) -> list[Holder]:
        """Return the tiers of a medium of which something is known."""
        return [
            holder
            for source in (self._sources[view.node] for view in views)
            for tier, holder in source.view.holders.items()
            if source.tier_info(tier).medium == medium
            and source.tier_quality(tier) is not Quality.UNKNOWN
        ]

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
            holder = source.holder(event.tier, event.medium)
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
            holder, hashes = source.holder(event.tier, event.medium), self._hashes(event)
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
