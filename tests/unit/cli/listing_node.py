"""A node that lists what it holds, and a view that hears of what happens there."""

from collections.abc import AsyncIterator, Callable
from typing import Any

from kvtier.cli.checking.comparison import Comparison
from kvtier.cli.checking.ledger import Ledger
from kvtier.cli.checking.verdict import Verdict
from kvtier.cli.checking.verify import compare
from kvtier.cli.follow import View
from kvtier.cli.trace import TOKENS_PER_BLOCK
from kvtier.v1.block_pb2 import BlockSet, Position
from kvtier.v1.event_service_pb2 import TierState
from kvtier.v1.lookup_pb2 import LookupBlocksResponse
from kvtier.v1.result_pb2 import ChainLookup
from kvtier.v1.tier_pb2 import Block, Limits, Node, Tier
from kvtier.wire.hashes import split_hashes

from .node_log import FINGERPRINT, TIER, NodeLog, block_hash


def chain(names: str) -> dict[str, tuple[bytes, int]]:
    parents = [b"", *map(block_hash, names)]
    return {
        name: (parent, place * TOKENS_PER_BLOCK)
        for place, (name, parent) in enumerate(zip(names, parents, strict=False))
    }


class FakeNode:
    """A node that holds blocks, and a view that hears of what happens there.

    Attributes:
        held: What it lists: each block's parent and position, as its store tells them.
        state: The state of its tier, as it lists it.
        reason: Why the tier is in it.
        before_listing: Called before each listing.
        after_listing: Called after each.
        after_lookup: Called after each lookup.
    """

    def __init__(self, held: str = "", view: View | None = None) -> None:
        self.held = chain(held)
        self.log = NodeLog()
        self.ledger = Ledger("n1")
        self.view = view or self.ledger
        self.listings = 0
        self.looked_up: list[str] = []
        self.state = TierState.TIER_STATE_READY
        self.reason = ""
        self.before_listing: Callable[[], object] = lambda: None
        self.after_listing: Callable[[], object] = lambda: None
        self.after_lookup: Callable[[], object] = lambda: None
        self._hear(self.log.snapshot(held))

    def change(self, *, store: str = "", remove: str = "", tell: bool = True) -> None:
        """Store and remove blocks, and tell of it unless that gets lost."""
        for name in remove:
            del self.held[name]
        self.held |= chain(store)
        if tell:
            self.view.apply(self.log.batch(store=store, remove=remove))

    def restart(self) -> None:
        """Lose the blocks, and begin another log."""
        self.held.clear()
        self.log = NodeLog(epoch=self.log.epoch + 1)
        self._hear(self.log.snapshot())

    async def compare(self) -> Comparison:
        client: Any = self
        return await compare(client, self.view)

    async def get_node(self) -> Node:
        head = Position(epoch=self.log.epoch, sequence=self.log.sequence)
        return Node(node_id="n1", head=head, limits=Limits(hashes=2))

    async def list_tiers(self) -> list[Tier]:
        silent = Tier(name="gpu0", state=TierState.TIER_STATE_SILENT)
        return [silent, Tier(name=TIER, state=self.state, state_reason=self.reason)]

    async def list_blocks(self, **_: object) -> AsyncIterator[Block]:
        self.listings += 1
        self.before_listing()
        for name, (parent, position) in list(self.held.items()):
            yield Block(
                tier=TIER,
                namespace=FINGERPRINT,
                block_hash=block_hash(name),
                start_position=position,
                parent_block_hash=parent,
            )
        self.after_listing()

    async def lookup(
        self, namespace: bytes, chains: list[BlockSet], *, include_blocks: bool
    ) -> LookupBlocksResponse:
        assert (namespace, include_blocks) == (FINGERPRINT, True)
        names = [h[:1].decode() for h in split_hashes(chains[0].block_hashes, 32)]
        assert len(names) <= 2, "no more hashes at once than the node allows"
        self.looked_up += names
        masks = [2 * (name in self.held) for name in names]
        self.after_lookup()
        return LookupBlocksResponse(tiers=["gpu0", TIER], chains=[ChainLookup(tier_masks=masks)])

    def _hear(self, messages: Any) -> None:
        for message in messages:
            self.view.apply(message)


def error_of(node: FakeNode, comparison: Comparison) -> tuple[int, str]:
    error = Verdict("there:1", comparison, node.ledger).error()
    assert error is not None
    return error.code, str(error)
