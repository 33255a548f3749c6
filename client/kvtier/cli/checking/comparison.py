"""What a comparison of events with a listing found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kvtier.cli.checking.difference import Difference
from kvtier.v1.block_pb2 import Position


@dataclass
class TierComparison:
    """One tier by its events and by the node's listing.

    Attributes:
        told: Blocks by the events, at the position that the view had come to after the listing.
        listed: Blocks in the listing. On a node at work the two may be of different moments, and
            so differ, without any difference between events and listing.
        difference: What differs.
    """

    told: int
    listed: int
    difference: Difference


@dataclass(frozen=True)
class Comparison:
    """What a comparison of a follower's view with a node's listings found.

    Attributes:
        node_id: The node.
        tiers: The tiers that tell their events, by name.
        silent: The tiers that do not; nothing can be said of them.
        recovering: Those of `tiers` that did not know yet all that they hold, and how far they
            were, in a few words.
        position: The position that the view had come to in the end; None when it was not complete.
        rounds: How often the node was asked.
        whole: The node was listed without its events beginning anew meanwhile. Without that
            nothing can be said.
    """

    node_id: str
    tiers: Mapping[str, TierComparison]
    silent: Sequence[str]
    recovering: Mapping[str, str]
    position: Position | None
    rounds: int
    whole: bool

    @property
    def listed(self) -> int:
        """Blocks in the listings."""
        return sum(tier.listed for tier in self.tiers.values())

    @property
    def missing(self) -> int:
        """Blocks that are listed, but not in the view."""
        return sum(len(tier.difference.only_in_listing) for tier in self.tiers.values())

    @property
    def surplus(self) -> int:
        """Blocks that are in the view, but not listed."""
        return sum(len(tier.difference.only_in_events) for tier in self.tiers.values())

    @property
    def differs(self) -> bool:
        """At least one block differs for certain."""
        return any(tier.difference.found for tier in self.tiers.values())

    @property
    def settled(self) -> bool:
        """Whether it could be told of every block if it differs."""
        return self.whole and not any(tier.difference.open for tier in self.tiers.values())

    @property
    def equal(self) -> bool:
        """The view is exactly what the node lists."""
        return self.settled and not self.differs
