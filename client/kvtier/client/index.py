"""Where the blocks of one or many nodes are, from their events."""

from collections.abc import Sequence
from typing import NamedTuple

from kvtier.client.holdings import Holdings, prefix_lengths
from kvtier.client.source import Holder, Quality, Source
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
from kvtier.wire.namespaces import fingerprint, problem

_NO_LIMIT = 1 << 63

# A namespace's fingerprint, a group and a scope.
_Space = tuple[bytes, int, bytes]


class BlockKey(NamedTuple):
    """What names a block: the namespace's fingerprint, the group, the scope and the hash."""

    namespace: bytes
    group: int
    scope: bytes
    block_hash: bytes


class _Read(NamedTuple):
    """What an event of blocks is about."""

    holder: Holder
    hashes: Sequence[bytes]
    space: _Space


class PrefixLengths(NamedTuple):
    """How long a prefix of a chain is held, in blocks, up to the first hole.

    Attributes:
        tiers: By node and tier.
        nodes: By node, over the union of its tiers. Nothing is stitched together over nodes.
    """

    tiers: dict[tuple[str, str], int]
    nodes: dict[str, int]


class BlockIndex:
    """A view of what nodes hold, folded from the messages of their event streams.

    A snapshot is built aside and takes the place of the old view at `synced`. A block is kept
    whether or not its parent is known. What makes no sense is counted and passed over, and the
    node's answers are STALE until its next snapshot. When a tier falls SILENT, what it held
    is forgotten.

    Attributes:
        bad_events: Parts of messages that could not be applied.
    """

    def __init__(self) -> None:
        self.bad_events = 0
        self._sources: dict[str, Source] = {}
        self._namespaces: dict[bytes, Namespace] = {}
        self._spaces: dict[_Space, Holdings[Holder]] = {}

    def apply(self, message: WatchEventsResponse) -> None:
        """Take in a message of a node's stream; each node's in their order."""
        if not message.node_id:
            return
        source = self._sources.get(message.node_id)
        if source is None:
            source = self._sources[message.node_id] = Source(message.node_id)
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
        return list(dict.fromkeys((*source.tier_states, *source.view))) if source else []

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
        return sum(space.count(holder) for space in self._spaces.values()) if holder else 0

    def blocks(self, node: str, tier: str) -> set[BlockKey]:
        """Return all blocks in a tier; it takes time in proportion to the whole index."""
        holder = self._visible(node, tier)
        if holder is None:
            return set()
        return {
            BlockKey(*space, block_hash)
            for space, holdings in self._spaces.items()
            for block_hash in holdings.blocks(holder)
        }

    def locate(self, key: BlockKey) -> list[tuple[str, str]]:
        """Return the node and tier of each copy of a block."""
        space = self._spaces.get((key.namespace, key.group, key.scope))
        if space is None:
            return []
        mask = space.masks((key.block_hash,))[0]
        return [tier for tier, bit in _tier_bits(space).items() if mask & bit]

    def held(
        self, node: str, namespace: bytes, group: int, scope: bytes, hashes: Sequence[bytes]
    ) -> list[bool]:
        """Return for each block whether a node holds it, in any of its tiers."""
        space = self._spaces.get((namespace, group, scope))
        bits = _node_bits(_tier_bits(space)).get(node, 0) if space is not None else 0
        if space is None or not bits:
            return [False] * len(hashes)
        return [bool(mask & bits) for mask in space.masks(hashes)]

    def prefix(
        self, namespace: bytes, group: int, scope: bytes, hashes: Sequence[bytes]
    ) -> PrefixLengths:
        """Return how long a prefix of a chain each tier and each node holds.

        Args:
            namespace: The fingerprint.
            group: The KV-cache group.
            scope: The scope.
            hashes: The chain, parent first.
        """
        tiers = {(s.node, tier): 0 for s in self._sources.values() for tier in s.view}
        nodes = dict.fromkeys(self._sources, 0)
        space = self._spaces.get((namespace, group, scope))
        if space is not None:
            masks = space.masks(hashes)
            tier_bits = _tier_bits(space)
            tiers.update(prefix_lengths(masks, tier_bits))
            nodes.update(prefix_lengths(masks, _node_bits(tier_bits)))
        return PrefixLengths(tiers, nodes)

    def forget(self, node: str) -> None:
        """Drop everything of a node, as if it had never been heard of."""
        source = self._sources.pop(node, None)
        if source is not None:
            for holder in (*source.view.values(), *(source.shadow or {}).values()):
                self._drop(holder)

    def _visible(self, node: str, tier: str) -> Holder | None:
        source = self._sources.get(node)
        return source.view.get(tier) if source is not None else None

    def _move(self, source: Source, message: WatchEventsResponse, kind: str | None) -> None:
        """Move a node's view to the position that a message accounts for."""
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
        for holders in (source.view, source.shadow or {}):
            holder = holders.pop(tier, None)
            if holder is not None:
                self._drop(holder)

    def _start_over(self, source: Source) -> None:
        for holder in (source.shadow or {}).values():
            self._drop(holder)
        source.shadow = {}
        source.reachable, source.flawed = True, False

    def _swap(self, source: Source, blocks: int) -> None:
        if source.shadow is not None:
            for holder in source.view.values():
                self._drop(holder)
            source.view, source.shadow = source.shadow, None
            for holder in source.view.values():
                holder.visible = True
        source.synced = source.reachable = True
        if blocks != sum(self.count(source.node, tier) for tier in source.view):
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
        self._drop(holder, event.namespace)

    def _remove(self, source: Source, event: BlockRemoved) -> None:
        read = self._read(source, event)
        space = self._spaces.get(read.space) if read is not None else None
        if read is not None and space is not None:
            space.remove(read.holder, read.hashes)
            if not len(space):
                del self._spaces[read.space]

    def _store(self, source: Source, event: BlockStored) -> None:
        read = self._read(source, event)
        if read is None:
            return
        space = self._spaces.get(read.space)
        if space is None:
            space = self._spaces[read.space] = Holdings()
        space.add(read.holder, read.hashes)

    def _read(self, source: Source, event: BlockStored | BlockRemoved) -> _Read | None:
        """Return what an event of blocks is about, or None when it makes no sense."""
        try:
            holder, hashes = source.holder(event.tier), self._hashes(event)
        except ValueError:
            self._pass_over(source)
            return None
        return _Read(holder, hashes, (event.namespace, event.group, event.scope))

    def _hashes(self, event: BlockStored | BlockRemoved) -> Sequence[bytes]:
        namespace = self._namespaces.get(event.namespace)
        if namespace is None:
            raise ValueError("the namespace was not described")
        hashes = split_hashes(event.block_hashes, namespace.hash_width)
        distinct = set(hashes)
        if not distinct:
            raise ValueError("there is no hash")
        return hashes if len(distinct) == len(hashes) else list(distinct)

    def _drop(self, holder: Holder, namespace: bytes = b"") -> None:
        for key, space in list(self._spaces.items()):
            if not namespace or key[0] == namespace:
                space.drop(holder)
                if not len(space):
                    del self._spaces[key]

    def _pass_over(self, source: Source) -> None:
        self.bad_events += 1
        source.flawed = True


def _tier_bits(space: Holdings[Holder]) -> dict[tuple[str, str], int]:
    return {(each.node, each.tier): bit for each, bit in space.bits() if each.visible}


def _node_bits(tier_bits: dict[tuple[str, str], int]) -> dict[str, int]:
    bits: dict[str, int] = {}
    for (node, _), bit in tier_bits.items():
        bits[node] = bits.get(node, 0) | bit
    return bits
