"""What must hold of a node's events at every batch, and of the node when it is quiet."""

from collections import defaultdict

from kvtier.server.node import Node
from kvtier.server.operations.listing import list_blocks
from kvtier.v1.block_pb2 import RemovalReason
from kvtier.v1.event_service_pb2 import EventBatch, EventBatches
from kvtier.v1.listing_pb2 import ListBlocksRequest
from kvtier.wire.hashes import split_hashes
from tests.contract.support import WIDTH
from tests.model.check_tables import check_node

MOVED = {RemovalReason.REMOVAL_REASON_DEMOTED, RemovalReason.REMOVAL_REASON_PROMOTED}


class Auditor:
    """Folds a node's log batch by batch.

    Attributes:
        view: The hashes that each tier shows.
    """

    def __init__(self, node: Node) -> None:
        self.view: dict[str, set[bytes]] = defaultdict(set)
        self.reasons: set[int] = set()
        self._node = node
        self._through = 0

    def follow(self) -> None:
        """Take in what the log has since the last call."""
        entries = self._node.log.read(self._through, self._node.log.head)
        self._through = self._node.log.head
        for batch in EventBatches.FromString(b"".join(each.basic for each in entries)).batches:
            self._take(batch)
        for tier in self._node.tiers:
            assert tier.table.room is None or tier.table.used_bytes <= tier.capacity_bytes

    async def check_quiet(self) -> None:
        """Check that the view is what the node lists, and that nothing is held any more."""
        self.follow()
        listed: dict[str, set[bytes]] = defaultdict(set)
        request = ListBlocksRequest(page_size=5000)
        for block in (await list_blocks(self._node, request)).blocks:
            listed[block.tier].add(block.block_hash)
        assert {t: v for t, v in self.view.items() if v} == dict(listed)
        check_node(self._node)
        for tier in self._node.tiers:
            assert not tier.occupancy.copying
            assert not tier.table.lent
            assert not tier.occupancy.draining + tier.occupancy.quarantined
            assert tier.table.room is not None or tier.occupancy.ready <= tier.table.capacity

    def _take(self, batch: EventBatch) -> None:
        moved: list[tuple[str, bytes]] = []
        for cleared in batch.cleared:
            self.view[cleared.tier].clear()
        for removed in batch.removed:
            self.reasons.add(removed.reason)
            for each in split_hashes(removed.block_hashes, WIDTH):
                assert each in self.view[removed.tier], "only what is there is removed"
                self.view[removed.tier].remove(each)
                if removed.reason in MOVED:
                    moved.append((removed.tier, each))
        for stored in batch.stored:
            for each in split_hashes(stored.block_hashes, WIDTH):
                assert each not in self.view[stored.tier], "only what is absent is stored"
                self.view[stored.tier].add(each)
        for tier in self._node.tiers:
            fits = tier.table.room is not None or len(self.view[tier.name]) <= tier.table.capacity
            assert fits, "no tier shows more than fit"
        for tier_name, each in moved:
            others = [held for name, held in self.view.items() if name != tier_name]
            assert any(each in held for held in others), "what moved is somewhere at every batch"
