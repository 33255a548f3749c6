"""What a listing and the events disagree on, although blocks came and went meanwhile.

A listing takes time, and is of no single position of the log. But a block that no event touched
from before the listing began until after it ended was either there all the time or absent all the
time: the listing has it exactly when the events do. So a disagreement about such a block is a
difference, however busy the node is. A disagreement about a block that was touched proves
nothing: it stays open, to be looked at again.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kvtier.client import BlockKey


class Facts(NamedTuple):
    """What an event and a listing both say of a block.

    Attributes:
        parent_block_hash: The parent's hash; empty at position 0.
        start_position: Where the block starts, in tokens.
        adapter_name: The adapter's name, as the offer gave it.
    """

    parent_block_hash: bytes
    start_position: int
    adapter_name: str


Blocks = Mapping[BlockKey, Facts | None]
"""Blocks, and what is known of each; None where nothing but its key is."""


class Touched:
    """The blocks of one node that events told of since recording began.

    Attributes:
        restarted: The source began anew meanwhile, so that not every block is known.
    """

    def __init__(self) -> None:
        self.restarted = False
        self._blocks: set[tuple[str, BlockKey]] = set()
        self._cleared: set[tuple[str, bytes]] = set()

    def add(self, tier: str, blocks: Iterable[BlockKey]) -> None:
        """Note that blocks were stored in a tier or removed from it."""
        self._blocks.update((tier, block) for block in blocks)

    def clear(self, tier: str, namespace: bytes) -> None:
        """Note that a tier was cleared, of one namespace or, if that is empty, of all."""
        self._cleared.add((tier, namespace))

    def within(self, tier: str) -> Callable[[BlockKey], bool]:
        """Return what tells whether a block of a tier was touched."""

        def touched(block: BlockKey) -> bool:
            return (
                (tier, block) in self._blocks
                or (tier, block.namespace) in self._cleared
                or (tier, b"") in self._cleared
            )

        return touched


@dataclass
class Difference:
    """What is known to differ in one tier, and what is open.

    Attributes:
        only_in_listing: Blocks that are listed although the events say that they are not there.
        only_in_events: Blocks that are not listed although the events say that they are there.
        unlike: Blocks of which events and listing say different things, in this order.
        open: Blocks that differ, but were touched meanwhile.
    """

    only_in_listing: dict[BlockKey, Facts | None] = field(default_factory=dict)
    only_in_events: dict[BlockKey, Facts | None] = field(default_factory=dict)
    unlike: dict[BlockKey, tuple[Facts, Facts]] = field(default_factory=dict)
    open: set[BlockKey] = field(default_factory=set)

    @property
    def found(self) -> int:
        """The number of blocks that differ for certain."""
        return len(self.only_in_listing) + len(self.only_in_events) + len(self.unlike)

    def settle(self, later: "Difference") -> None:
        """Take in what another look at the open blocks brought."""
        self.only_in_listing |= later.only_in_listing
        self.only_in_events |= later.only_in_events
        self.unlike |= later.unlike
        self.open = later.open


def differ(told: Blocks, listed: Blocks, touched: Callable[[BlockKey], bool]) -> Difference:
    """Return in what the blocks of one tier differ.

    Args:
        told: What the tier holds by the events, at a position not before the listing's end.
        listed: What the listing says.
        touched: Whether an event told of a block from before the listing's beginning up to the
            position of `told`.
    """
    difference = Difference()
    for block in listed.keys() - told.keys():
        if touched(block):
            difference.open.add(block)
        else:
            difference.only_in_listing[block] = listed[block]
    for block in told.keys() - listed.keys():
        if touched(block):
            difference.open.add(block)
        else:
            difference.only_in_events[block] = told[block]
    for block, here in listed.items():
        there = told.get(block)
        if None not in {here, there} and here != there and not touched(block):
            assert here is not None
            assert there is not None
            difference.unlike[block] = there, here
    return difference
