"""What following a node needs to know of it."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from kvtier.server.events.log import EventLog
from kvtier.server.events.parts import Part
from kvtier.v1.block_pb2 import Locality


@dataclass(frozen=True, slots=True)
class TierInfo:
    """A tier as followers see it.

    Attributes:
        index: Its place on the node.
        name: Its name.
        medium: A `kvtier.v1.Medium` number.
        state: A `kvtier.v1.TierState` number.
        reason: Why it is in that state; may be empty.
        locality: A `kvtier.v1.Locality` number.
    """

    index: int
    name: str
    medium: int
    state: int
    reason: str = ""
    locality: int = Locality.LOCALITY_LOCAL


class News(NamedTuple):
    """Namespaces that a follower was not told of yet.

    Attributes:
        newest: What to ask with the next time.
        described: Fingerprint and serialized Namespace of each.
    """

    newest: int
    described: Sequence[tuple[bytes, bytes]]


class LogSource(Protocol):
    """A node, as a follower of its log sees it.

    Attributes:
        node_id: The node's stable id.
        log: Its event log.
        draining: Set when the node's last event is in the log and followers are to be sent off.
        state_changes: How often the states of its tiers have changed.
        states_at: The log's head when they changed last.
    """

    node_id: str
    log: EventLog
    draining: asyncio.Event
    state_changes: int
    states_at: int

    def tier_infos(self) -> Sequence[TierInfo]:
        """Return the tiers, from fastest to slowest."""
        ...

    def namespaces(self, number: int, position: int) -> News:
        """Return the namespaces that a follower must be told of before it is told anything else.

        They are those registered since, and those deleted since that a later batch names.

        Args:
            number: The `newest` of the last answer; 0 to hear of all.
            position: The position that the follower has come to.
        """
        ...

    def ready_blocks(self, tier: int, namespaces: frozenset[bytes] | None) -> int:
        """Return the number of readable blocks of a tier, of some namespaces or of all."""
        ...


class EventSource(LogSource, Protocol):
    """A node, as the event service sees it.

    Attributes:
        followers: Number of followers now; kept by the event service.
    """

    followers: int

    def snapshot(self, tier: int) -> Iterator[list[Part]]:
        """Walk one tier's live table, a slice of some 2,000 blocks at a time.

        Each slice is exact at the log's head of the moment at which it is taken, takes a few
        milliseconds at most, and never blocks. A block that is readable during the whole walk is
        in one slice at least.
        """
        ...
