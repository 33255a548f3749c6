"""What a follower of a proxy asked for, and what that means at each node."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kvtier.proxy.ring import Ring
from kvtier.server.events.filter import EventFilter
from kvtier.server.events.request import check_form
from kvtier.v1.block_pb2 import Position
from kvtier.v1.event_service_pb2 import WatchEventsRequest

# No node has a tier of this number: nothing passes.
_NO_TIER = frozenset({-1})


@dataclass(frozen=True, slots=True)
class Wishes:
    """A checked request.

    Attributes:
        request: The request.
        positions: Where to resume, by node.
        wanted: What to see, but for tiers.
    """

    request: WatchEventsRequest
    positions: Mapping[str, Position]
    wanted: EventFilter

    @classmethod
    def of(cls, request: WatchEventsRequest) -> "Wishes":
        """Return what a request asks for.

        Raises:
            KvtierError: INVALID_ARGUMENT for anything malformed.
        """
        positions, wanted = check_form(request)
        return cls(request, positions, wanted)

    def tiers_at(self, ring: Ring | None) -> list[str]:
        """Return the tiers to ask a node for; all that were named while it is not known which."""
        known = ring.tiers if ring is not None and ring.ready else None
        return [name for name in self.request.tiers if known is None or name in known]

    def nothing_at(self, ring: Ring | None) -> bool:
        """Tell whether a node is known to have none of the tiers that were named."""
        return bool(self.request.tiers) and not self.tiers_at(ring)

    def at(self, ring: Ring) -> EventFilter:
        """Return the filter of a node's ring."""
        if not self.request.tiers:
            return self.wanted
        places = frozenset(ring.tiers[name].index for name in self.tiers_at(ring))
        return replace(self.wanted, tiers=places or _NO_TIER)
