"""What an index knows of one node, besides where its blocks are."""

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from kvtier.v1.block_pb2 import Locality, Medium
from kvtier.v1.event_service_pb2 import SourceState, State, TierState

# A node has at most so many tiers.
MAX_TIERS = 16

Space = tuple[bytes, int, bytes]
"""A namespace's fingerprint, a group and a scope."""


class Quality(Enum):
    """How much an answer about a node is worth.

    EXACT: equal to what the node held at the position. STALE: it was, but the node is out of reach
    or suspect, or starts over, or sent an event that could not be applied; of a tier also, that
    it is RECOVERING and may have more than it has told. UNKNOWN: nothing is known.
    """

    EXACT = "EXACT"
    STALE = "STALE"
    UNKNOWN = "UNKNOWN"


class TierInfo(NamedTuple):
    """What a tier is made of.

    Attributes:
        medium: Its kind of storage; unspecified when the node did not tell.
        locality: Where its bytes are, seen from its node; unspecified when the node did not tell.
    """

    medium: Medium.ValueType = Medium.MEDIUM_UNSPECIFIED
    locality: Locality.ValueType = Locality.LOCALITY_UNSPECIFIED


@dataclass(eq=False, slots=True)
class Build:
    """One view of a node, from the reset that began it.

    Attributes:
        node: The node's id.
        visible: Queries see it: it is not being built by a snapshot.
        holders: The holder of each tier that was heard of, by the tier's name.
        infos: What the node said that its tiers are made of, by their names.
    """

    node: str
    visible: bool
    holders: "dict[str, Holder]" = field(default_factory=dict)
    infos: dict[str, TierInfo] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Holder:
    """One tier in a build.

    Attributes:
        build: The build.
        tier: The tier's name.
        medium: The tier's medium, as its first event told it.
        spaces: Where it holds something.
    """

    build: Build
    tier: str
    medium: Medium.ValueType = Medium.MEDIUM_UNSPECIFIED
    spaces: set[Space] = field(default_factory=set)


@dataclass(slots=True)
class Source:
    """One node: its view, the view that a snapshot is building, and the node's state.

    Attributes:
        node: The node's id.
        view: What queries see.
        shadow: What a snapshot is building; None when none is under way.
        tier_states: What the node said of its tiers.
        epoch: The life of the log that the view is based on.
        through: The last sequence that the view accounts for.
        synced: The view was complete once.
        reachable: Nothing speaks against the node.
        flawed: Since the last reset something could not be applied.
    """

    node: str
    view: Build
    shadow: Build | None = None
    tier_states: dict[str, TierState.ValueType] = field(default_factory=dict)
    epoch: int = 0
    through: int = 0
    synced: bool = False
    reachable: bool = True
    flawed: bool = False

    @classmethod
    def of(cls, node: str) -> "Source":
        """Return what is known of a node that was never heard of."""
        return cls(node, Build(node, visible=True))

    @property
    def quality(self) -> Quality:
        """How much the view is worth."""
        if not self.synced:
            return Quality.UNKNOWN
        exact = self.shadow is None and self.reachable and not self.flawed
        return Quality.EXACT if exact else Quality.STALE

    def tier_quality(self, tier: str) -> Quality:
        """How much the view of one tier is worth: nothing, when it is silent or not there."""
        state = self.tier_states.get(tier)
        if state == TierState.TIER_STATE_SILENT or (self.tier_states and state is None):
            return Quality.UNKNOWN
        quality = self.quality
        partial = state == TierState.TIER_STATE_RECOVERING and quality is Quality.EXACT
        return Quality.STALE if partial else quality

    @property
    def recovering(self) -> list[str]:
        """The tiers that are still finding out what they hold."""
        recovering = TierState.TIER_STATE_RECOVERING
        return [tier for tier, state in self.tier_states.items() if state == recovering]

    def tier_info(self, tier: str) -> TierInfo:
        """What a tier is made of: as the node said of the tier, or else as its events say."""
        info, holder = self.view.infos.get(tier, TierInfo()), self.view.holders.get(tier)
        if holder is None or info.medium:
            return info
        return info._replace(medium=holder.medium)

    def note(self, state: State) -> None:
        """Take in the state of the node or of one of its tiers."""
        if state.tier:
            self.tier_states[state.tier] = state.tier_state
            self.builds()[-1].infos[state.tier] = TierInfo(state.medium, state.locality)
        else:
            self.reachable = state.source in {
                SourceState.SOURCE_STATE_SNAPSHOT,
                SourceState.SOURCE_STATE_LIVE,
            }

    def builds(self) -> list[Build]:
        """Return the view, and what a snapshot is building."""
        return [self.view] if self.shadow is None else [self.view, self.shadow]

    def holder(self, tier: str, medium: Medium.ValueType) -> Holder:
        """Return whom an event of a tier is about, now.

        Args:
            tier: The tier's name.
            medium: Its medium, as the event tells it.

        Raises:
            ValueError: When the node named its tiers and this is none of them, or has too many.
        """
        if not tier or (self.tier_states and tier not in self.tier_states):
            raise ValueError(f"node {self.node} has no tier {tier!r}")
        build = self.builds()[-1]
        holder = build.holders.get(tier)
        if holder is None:
            if len(build.holders) == MAX_TIERS:
                raise ValueError(f"node {self.node} has more than {MAX_TIERS} tiers")
            holder = build.holders[tier] = Holder(build, tier, medium)
        return holder


def is_removal(state: State) -> bool:
    """Tell whether a node says that it is not followed any more."""
    return not state.tier and state.source == SourceState.SOURCE_STATE_REMOVED
