"""What a proxy knows of one node."""

from collections.abc import Callable

import structlog

from kvtier.client import BlockIndex, Quality
from kvtier.proxy.ring import Ring
from kvtier.proxy.told import Told
from kvtier.server.events.bell import Bell
from kvtier.v1.block_pb2 import Position
from kvtier.v1.event_service_pb2 import SourceState, WatchEventsResponse

_log = structlog.get_logger(__name__)

_IN_TOUCH = frozenset({SourceState.SOURCE_STATE_SNAPSHOT, SourceState.SOURCE_STATE_LIVE})

MakeRing = Callable[[str, Position], Ring]


class Relay:
    """One node: its newest batches, and the state that it is in.

    Args:
        node_id: The node's id.
        index: What nodes hold; at the time of each message or later.
        make_ring: Makes a ring of the node that begins at a position.
        news: Rings when followers must look up.
        told: What followers of all nodes are told; kept up to date.

    Attributes:
        node_id: As given.
        news: As given.
        told: As given.
        ring: The newest batches; None while there is nothing to go on from.
        state: The state of the source.
        reason: Why, in a few words.
    """

    def __init__(
        self, node_id: str, index: BlockIndex, make_ring: MakeRing, news: Bell, told: Told
    ) -> None:
        self.node_id = node_id
        self.news = news
        self.told = told
        self.ring: Ring | None = None
        self.state = SourceState.SOURCE_STATE_CONNECTING
        self.reason = ""
        self._index = index
        self._make_ring = make_ring

    @property
    def in_touch(self) -> bool:
        """Whether the node can be followed now."""
        return self.state in _IN_TOUCH

    def take(self, message: WatchEventsResponse) -> bool:
        """Take in a message of the node's stream; tell whether followers must look up.

        What makes no sense ends the ring: followers then hear from the node itself, until it
        starts over.
        """
        kind = message.WhichOneof("kind")
        if kind == "state" and not message.state.tier:
            self.state, self.reason = message.state.source, message.state.reason
            return True
        if kind == "reset":
            self._begin(message)
        elif self.ring is not None:
            try:
                return self._add(self.ring, message, kind)
            except ValueError as error:
                _log.warning("a node's events make no sense", node_id=self.node_id, why=str(error))
                self.close()
        return False

    def close(self) -> None:
        """End the ring."""
        if self.ring is not None:
            self.ring.end()
            self.ring = None

    def _begin(self, message: WatchEventsResponse) -> None:
        begin = Position(epoch=message.epoch, sequence=message.through)
        if self.ring is None or self.ring.head != begin:
            self.close()
            self.ring = self._make_ring(self.node_id, begin)

    def _add(self, ring: Ring, message: WatchEventsResponse, kind: str | None) -> bool:
        ring.take(message, kind)
        becomes_ready = kind == "synced" and not ring.ready
        ring.ready = ring.ready or becomes_ready
        if ring.ready and ring.counted_from is None:
            self._count(ring)
        return becomes_ready

    def _count(self, ring: Ring) -> None:
        """Begin to count once the ring has come to where the index is, which is ahead of it."""
        exact = self._index.quality(self.node_id) is Quality.EXACT
        if exact and self._index.position(self.node_id) == ring.head:
            ring.count(self._index.counts(self.node_id))
