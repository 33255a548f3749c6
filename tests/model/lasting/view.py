"""What a follower makes of a node's log."""

from collections import defaultdict

from kvtier.server.node import Node
from kvtier.v1.event_service_pb2 import BlockRemoved, BlockStored, EventBatch, EventBatches
from kvtier.wire.hashes import split_hashes
from kvtier.wire.namespaces import fingerprint

from .blocks import NAMESPACES, Key

_WIDTHS = {fingerprint(each): each.hash_width for each in NAMESPACES}


class View:
    """The blocks that each tier shows, folded from a node's log, batch by batch.

    Attributes:
        blocks: The blocks that each tier shows.
        ever: Those that each has shown at any time.
        why: The reason of each block's last removal, by tier.
    """

    def __init__(self, node: Node) -> None:
        self.blocks: dict[str, set[Key]] = defaultdict(set)
        self.ever: dict[str, set[Key]] = defaultdict(set)
        self.why: dict[tuple[str, Key], int] = {}
        self._log = node.log
        self._through = 0

    def follow(self) -> None:
        """Take in what the log has since the last call."""
        entries = self._log.read(self._through, self._log.head)
        self._through = self._log.head
        for batch in EventBatches.FromString(b"".join(each.basic for each in entries)).batches:
            self._take(batch)

    def _take(self, batch: EventBatch) -> None:
        for cleared in batch.cleared:
            there = self.blocks[cleared.tier]
            there -= {key for key in there if cleared.namespace in {b"", key.namespace}}
        for removed in batch.removed:
            keys = _keys(removed)
            assert keys <= self.blocks[removed.tier], "only what is there is removed"
            self.blocks[removed.tier] -= keys
            self.why.update({(removed.tier, key): removed.reason for key in keys})
        for stored in batch.stored:
            keys = _keys(stored)
            assert not keys & self.blocks[stored.tier], "only what is absent is stored"
            self.blocks[stored.tier] |= keys
            self.ever[stored.tier] |= keys


def _keys(event: BlockRemoved | BlockStored) -> set[Key]:
    hashes = split_hashes(event.block_hashes, _WIDTHS[event.namespace])
    return {Key(event.namespace, event.group, event.scope, each) for each in hashes}
