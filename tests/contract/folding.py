"""A follower's view of one node, folded from its stream, and the listing to compare it with."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, Self

from kvtier.client import NodeClient
from kvtier.v1.block_pb2 import Position, RemovalReason
from kvtier.v1.event_service_pb2 import (
    BlockRemoved,
    BlockStored,
    EventBatch,
    NodePosition,
    ResetReason,
    TierCleared,
    WatchEventsResponse,
)
from kvtier.wire.hashes import split_hashes
from kvtier.wire.namespaces import fingerprint

if TYPE_CHECKING:
    from kvtier.v1.namespace_pb2 import Namespace


class Key(NamedTuple):
    """One copy of a block on a node."""

    tier: str
    namespace: bytes
    group: int
    scope: bytes
    block_hash: bytes


class Facts(NamedTuple):
    """What an event and a listing both say of a block."""

    parent_block_hash: bytes
    start_position: int
    adapter_name: str


class Told(NamedTuple):
    """One change of one block, or one clear, as an event told it."""

    sequence: int
    what: str
    tier: str
    block_hash: bytes = b""
    reason: str = ""


async def listed(client: NodeClient, *tiers: str) -> dict[Key, Facts]:
    """Return what a node lists, in all tiers or in some; no block twice."""
    found: dict[Key, Facts] = {}
    async for block in client.list_blocks(tiers=tiers):
        key = Key(block.tier, block.namespace, block.group, block.scope, block.block_hash)
        assert key not in found, "a block is listed once"
        found[key] = Facts(block.parent_block_hash, block.start_position, block.adapter_name)
    return found


class Fold:
    """Applies the messages of one node's stream; one that breaks the grammar fails the test.

    Attributes:
        view: Every block that was told of.
        tokens: The token ids of those blocks that came with some.
        told: Every change since the view was complete, in order.
        most: The most blocks that each tier ever showed in a complete view, change by change.
        resets: The reason of every reset.
        synced: Whether the view is complete.
        epoch: The life of the log.
        through: The sequence accounted for.
    """

    def __init__(self, *, filtered: bool = False) -> None:
        self.view: dict[Key, Facts] = {}
        self.tokens: dict[Key, tuple[int, ...]] = {}
        self.told: list[Told] = []
        self.most: Counter[str] = Counter()
        self.resets: list[str] = []
        self.synced = False
        self.epoch = 0
        self.through = 0
        self.node_id = ""
        self._filtered = filtered
        self._namespaces: dict[bytes, Namespace] = {}
        self._opened = False
        self._sizes: Counter[str] = Counter()

    @classmethod
    def at_the_start(cls, node_id: str, epoch: int) -> Self:
        """Return the view of someone who was there before a log's first batch."""
        fold = cls()
        fold.node_id, fold.epoch, fold.synced = node_id, epoch, True
        return fold

    def positions(self) -> list[NodePosition]:
        """Return where to resume."""
        position = Position(epoch=self.epoch, sequence=self.through)
        return [NodePosition(node_id=self.node_id, position=position)] if self.synced else []

    def reopen(self) -> None:
        """Expect the first message of another stream."""
        self._opened = False

    def count(self, what: str, block_hash: bytes, tier: str = "cpu0") -> int:
        """Return how often a change of a block was told."""
        return sum(
            (each.what, each.block_hash, each.tier) == (what, block_hash, tier)
            for each in self.told
        )

    def apply(self, message: WatchEventsResponse) -> None:
        """Take in the next message."""
        kind = message.WhichOneof("kind") or ""
        assert message.node_id
        assert self.node_id in {"", message.node_id}, "one stream tells of one node"
        self.node_id = message.node_id
        if kind != "reset" and (self._opened or self.synced):
            assert message.after == self.through, "nothing is missing between two messages"
            assert message.epoch == self.epoch
        assert message.through >= message.after
        self._opened = True
        getattr(self, f"_{kind}")(message)
        self.through = message.through

    def _reset(self, message: WatchEventsResponse) -> None:
        self.resets.append(ResetReason.Name(message.reset.reason).removeprefix("RESET_REASON_"))
        self.view, self.tokens, self._sizes = {}, {}, Counter()
        self.synced, self.epoch = False, message.epoch

    def _snapshot(self, message: WatchEventsResponse) -> None:
        assert not self.synced, "pages come before synced"
        for stored in message.snapshot.stored:
            self._add(stored)

    def _synced(self, message: WatchEventsResponse) -> None:
        assert message.synced.blocks == len(self.view), "synced tells the number of blocks"
        self.synced = True
        self.most |= self._sizes

    def _batches(self, message: WatchEventsResponse) -> None:
        sequences = [batch.sequence for batch in message.batches.batches]
        span = range(message.after + 1, message.through + 1)
        assert set(sequences) <= set(span)
        assert all(one < two for one, two in pairwise(sequences))
        assert self._filtered or sequences == list(span), "no batch is left out"
        for batch in message.batches.batches:
            self._batch(batch)

    def _batch(self, batch: EventBatch) -> None:
        for cleared in batch.cleared:
            self._clear(batch.sequence, cleared)
        for removed in batch.removed:
            self._remove(batch.sequence, removed)
        for stored in batch.stored:
            added = self._add(stored)
            if self.synced:
                self.told += [Told(batch.sequence, "stored", k.tier, k.block_hash) for k in added]
                self.most |= self._sizes

    def _progress(self, message: WatchEventsResponse) -> None:
        assert message.progress.head >= message.through

    def _state(self, message: WatchEventsResponse) -> None:
        assert message.after == message.through

    def _namespace(self, message: WatchEventsResponse) -> None:
        assert message.after == message.through
        self._namespaces[fingerprint(message.namespace)] = message.namespace

    def _clear(self, sequence: int, event: TierCleared) -> None:
        gone = [
            key
            for key in self.view
            if key.tier == event.tier and event.namespace in {b"", key.namespace}
        ]
        for key in gone:
            self._drop(key)
        if self.synced:
            self.told.append(Told(sequence, "cleared", event.tier))

    def _remove(self, sequence: int, event: BlockRemoved) -> None:
        reason = RemovalReason.Name(event.reason).removeprefix("REMOVAL_REASON_")
        assert reason != "UNSPECIFIED"
        for key in self._keys(event):
            assert key in self.view or not self.synced, "only what is there is removed"
            self._drop(key)
            if self.synced:
                self.told.append(Told(sequence, "removed", key.tier, key.block_hash, reason))

    def _add(self, event: BlockStored) -> list[Key]:
        keys = self._keys(event)
        for key, facts in zip(keys, self._facts(event, keys), strict=True):
            assert key not in self.view or not self.synced, "only what is absent is stored"
            self._sizes[key.tier] += key not in self.view
            self.view[key] = facts
        if event.token_ids:
            size = len(event.token_ids) // len(keys)
            cut = range(0, len(event.token_ids), size)
            told = [tuple(event.token_ids[first : first + size]) for first in cut]
            self.tokens.update(zip(keys, told, strict=True))
        return keys

    def _drop(self, key: Key) -> None:
        self._sizes[key.tier] -= self.view.pop(key, None) is not None
        self.tokens.pop(key, None)

    def _keys(self, event: BlockRemoved | BlockStored) -> list[Key]:
        assert event.namespace in self._namespaces, "a namespace is described before it is used"
        width = self._namespaces[event.namespace].hash_width
        return [
            Key(event.tier, event.namespace, event.group, event.scope, block_hash)
            for block_hash in split_hashes(event.block_hashes, width)
        ]

    def _facts(self, event: BlockStored, keys: list[Key]) -> Iterator[Facts]:
        namespace = self._namespaces[event.namespace]
        parents = iter(split_hashes(event.parent_block_hashes, namespace.hash_width))
        rest = iter(keys)
        lengths = event.run_lengths or [len(keys)]
        for length, start in zip(lengths, event.start_positions, strict=True):
            parent = next(parents) if start else b""
            for place in range(length):
                position = start + place * namespace.tokens_per_block
                yield Facts(parent, position, event.adapter_name)
                parent = next(rest).block_hash
