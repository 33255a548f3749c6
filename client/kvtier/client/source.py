"""What an index knows of one node, besides where its blocks are."""

from dataclasses import dataclass, field
from enum import Enum

from kvtier.v1.event_service_pb2 import SourceState, State, TierState


class Quality(Enum):
    """How much an answer about a node is worth.

    EXACT: equal to what the node held at the position. STALE: it was, but the node is out of reach
    or suspect, or starts over, or sent an event that could not be applied. UNKNOWN: nothing is
    known.
    """

    EXACT = "EXACT"
    STALE = "STALE"
    UNKNOWN = "UNKNOWN"


@dataclass(eq=False, slots=True)
class Holder:
    """One tier of one node, in one build of the node's view.

    Attributes:
        node: The node's id.
        tier: The tier's name.
        visible: Queries see it: it is not being built by a snapshot.
    """

    node: str
    tier: str
    visible: bool


@dataclass(slots=True)
class Source:
    """One node: its view, the view that a snapshot is building, and the node's state.

    Attributes:
        node: The node's id.
        view: The holder of each tier, as queries see it.
        shadow: The holders that a snapshot is filling; None when none is under way.
        tier_states: What the node said of its tiers.
        epoch: The life of the log that the view is based on.
        through: The last sequence that the view accounts for.
        synced: The view was complete once.
        reachable: Nothing speaks against the node.
        flawed: Since the last reset something could not be applied.
    """

    node: str
    view: dict[str, Holder] = field(default_factory=dict)
    shadow: dict[str, Holder] | None = None
    tier_states: dict[str, TierState.ValueType] = field(default_factory=dict)
    epoch: int = 0
    through: int = 0
    synced: bool = False
    reachable: bool = True
    flawed: bool = False

    @property
    def quality(self) -> Quality:
        """How much the view is worth."""
        if not self.synced:
            return Quality.UNKNOWN
        exact = self.shadow is None and self.reachable and not self.flawed
        return Quality.EXACT if exact else Quality.STALE

    def tier_quality(self, tier: str) -> Quality:
        """How much the view of one tier is worth: nothing, when the tier tells no events."""
        if self.tier_states.get(tier) == TierState.TIER_STATE_SILENT:
            return Quality.UNKNOWN
        return self.quality

    def note(self, state: State) -> None:
        """Take in the state of the node or of one of its tiers."""
        if state.tier:
            self.tier_states[state.tier] = state.tier_state
        else:
            self.reachable = state.source in {
                SourceState.SOURCE_STATE_SNAPSHOT,
                SourceState.SOURCE_STATE_LIVE,
            }

    def holder(self, tier: str) -> Holder:
        """Return whom an event of a tier is about, now.

        Raises:
            ValueError: When the node named its tiers, and this is none of them.
        """
        if not tier or (self.tier_states and tier not in self.tier_states):
            raise ValueError(f"node {self.node} has no tier {tier!r}")
        holders = self.view if self.shadow is None else self.shadow
        if tier not in holders:
            holders[tier] = Holder(self.node, tier, visible=self.shadow is None)
        return holders[tier]
