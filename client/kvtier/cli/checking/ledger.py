"""What one node's events say that its tiers hold, block by block, and whether they make sense."""

from collections.abc import Iterator
from typing import NamedTuple

from kvtier.cli.arrival import Arrival
from kvtier.cli.checking.difference import Blocks, Facts
from kvtier.cli.checking.journal import Journal
from kvtier.cli.described import Described, broken
from kvtier.client import BlockKey
from kvtier.v1.event_service_pb2 import (
    BlockStored,
    EventBatch,
    TierCleared,
    WatchEventsResponse,
)


class Contradiction(NamedTuple):
    """An event that cannot follow on those before it, so that one was lost or made up.

    Attributes:
        tier: The tier.
        block: The block.
        event: "stored" for a block that was there already, "removed" for one that was not.
        sequence: The batch's.
    """

    tier: str
    block: BlockKey
    event: str
    sequence: int


class Ledger:
    """Folds one node's messages strictly.

    Args:
        node_id: The node; messages of others are passed over.

    Attributes:
        arrival: How far the node has come.
        journal: What is told, while somebody records it.
        contradictions: Events that cannot follow on those before them. Until the view is complete
            there are none: between the pages of a snapshot a known block may be stored.
        miscounts: Times that a complete view was said to have another number of blocks.
    """

    def __init__(self, node_id: str) -> None:
        self.arrival = Arrival()
        self.contradictions: list[Contradiction] = []
        self.miscounts = 0
        self._node_id = node_id
        self._described = Described()
        self.journal = Journal(self._described)
        self._tiers: dict[str, dict[BlockKey, Facts]] = {}

    def blocks(self, node_id: str, tier: str) -> Blocks:
        """Return what a tier holds."""
        assert node_id == self._node_id
        return self._tiers.get(tier, {})

    def namespace_name(self, namespace: bytes) -> str:
        """Return the name of a namespace by its fingerprint; empty when it was not described."""
        return self._described.name(namespace)

    def apply(self, message: WatchEventsResponse) -> None:
        """Take the next message.

        Raises:
            CommandError: When the stream breaks its grammar.
        """
        if message.node_id != self._node_id:
            return
        match message.WhichOneof("kind"):
            case "namespace":
                self._described.note(self._node_id, message.namespace)
            case "reset":
                self._tiers.clear()
            case "snapshot":
                for stored in message.snapshot.stored:
                    self._tier(stored.tier).update(self._facts(stored))
            case "batches":
                for batch in message.batches.batches:
                    self._apply(batch)
            case "synced":
                held = sum(map(len, self._tiers.values()))
                self.miscounts += message.synced.blocks != held
        self.journal.note(message)
        self.arrival.note(message)

    def _apply(self, batch: EventBatch) -> None:
        for cleared in batch.cleared:
            self._clear(cleared)
        for removed in batch.removed:
            tier = self._tier(removed.tier)
            hashes = self._described.split(self._node_id, removed.namespace, removed.block_hashes)
            for block_hash in hashes:
                block = BlockKey(removed.namespace, removed.group, removed.scope, block_hash)
                if tier.pop(block, None) is None:
                    self._doubt(removed.tier, block, "removed", batch.sequence)
        for stored in batch.stored:
            tier = self._tier(stored.tier)
            for block, facts in self._facts(stored):
                if block in tier:
                    self._doubt(stored.tier, block, "stored", batch.sequence)
                tier[block] = facts

    def _clear(self, event: TierCleared) -> None:
        kept = {
            block: facts
            for block, facts in self._tier(event.tier).items()
            if event.namespace and block.namespace != event.namespace
        }
        self._tiers[event.tier] = kept

    def _doubt(self, tier: str, block: BlockKey, event: str, sequence: int) -> None:
        if self.arrival.synced(self._node_id):
            self.contradictions.append(Contradiction(tier, block, event, sequence))

    def _tier(self, name: str) -> dict[BlockKey, Facts]:
        return self._tiers.setdefault(name, {})

    def _facts(self, event: BlockStored) -> Iterator[tuple[BlockKey, Facts]]:
        """Yield the blocks of an event with what its columns say of each."""
        _, tokens = self._described.sizes(self._node_id, event.namespace)
        hashes = self._described.split(self._node_id, event.namespace, event.block_hashes)
        parents = self._described.split(self._node_id, event.namespace, event.parent_block_hashes)
        lengths = event.run_lengths or [len(hashes)]
        starts = event.start_positions
        inner = sum(start > 0 for start in starts)
        if (len(starts), len(parents), sum(lengths)) != (len(lengths), inner, len(hashes)):
            broken(self._node_id, f"the columns of a store of {len(hashes)} blocks do not fit")
        rest, parent_of = iter(hashes), iter(parents)
        for length, start in zip(lengths, starts, strict=True):
            parent = next(parent_of) if start else b""
            for place in range(length):
                block_hash = next(rest)
                key = BlockKey(event.namespace, event.group, event.scope, block_hash)
                yield key, Facts(parent, start + place * tokens, event.adapter_name)
                parent = block_hash
