"""Merging the streams of a primary and its secondaries, without I/O.

Order within a source is kept; none is promised between sources, but that a turn starts with the
primary.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from kvtier.v1.block_pb2 import Position
from kvtier.v1.event_service_pb2 import NodePosition, SourceState, WatchEventsResponse


class Delivery(NamedTuple):
    """A message of a source.

    Attributes:
        message: The message.
        position: Where its node's stream can be resumed after it; None when it cannot.
        size: What it counts for, in bytes.
    """

    message: WatchEventsResponse
    position: Position | None
    size: int


class SourceBuffer:
    """What one source delivered and nobody took yet, bounded by its size.

    A buffer that is abandoned drops everything and takes nothing in until somebody takes from it
    again; what comes after that has to start over. But that a node was REMOVED is kept: nothing
    that comes later says so.

    Args:
        limit: Bytes at which it is full. What is larger is let in alone.

    Attributes:
        abandoned: Nothing is taken in.
        takes: How many messages were taken from it so far.
    """

    def __init__(self, limit: int) -> None:
        self.abandoned = False
        self.takes = 0
        self._limit = limit
        self._waiting: deque[Delivery] = deque()
        self._size = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """Whether the next message has to wait."""
        return self._size >= self._limit

    def put(self, delivery: Delivery) -> None:
        """Add a message at the end."""
        self._waiting.append(delivery)
        self._size += delivery.size

    def pop(self) -> Delivery:
        """Remove and return the oldest message."""
        delivery = self._waiting.popleft()
        self._size -= delivery.size
        self.takes += 1
        return delivery

    def abandon(self) -> None:
        """Drop everything but who was removed: nobody takes."""
        self._keep(lambda message: message.state.source == SourceState.SOURCE_STATE_REMOVED)
        self.abandoned = True

    def drop(self, node_id: str) -> None:
        """Drop what waits of a node."""
        self._keep(lambda message: message.node_id != node_id)

    def _keep(self, passes: Callable[[WatchEventsResponse], bool]) -> None:
        self._waiting = deque(each for each in self._waiting if passes(each.message))
        self._size = sum(each.size for each in self._waiting)


class Merge:
    """Takes messages from the buffers of a primary and its secondaries, in turns.

    Args:
        buffers: The primary's buffer, then the secondaries', as `arrange` takes them.
        quota: Most messages of one secondary in a round.
        require_primary: Secondaries wait while the primary is not known to be in sync.
        positions: Where the streams begin, when they are resumed.
    """

    def __init__(
        self,
        buffers: Sequence[SourceBuffer] = (),
        *,
        quota: int,
        require_primary: bool = False,
        positions: Sequence[NodePosition] = (),
    ) -> None:
        self._buffers = list(buffers)
        self._leaving: list[SourceBuffer] = []
        self._quota = quota
        self._require_primary = require_primary
        # The nodes behind the primary's address that were heard of, and whether each is in sync.
        self._primaries: dict[str, bool] = {}
        self._positions = {each.node_id: each.position for each in positions}

    def arrange(self, buffers: Sequence[SourceBuffer]) -> None:
        """Take from these from now on, in this order, the primary's first.

        What lies in a buffer that is not named any more is still taken, after all others.
        """
        self._leaving += [each for each in self._buffers if each not in buffers]
        self._buffers = list(buffers)

    @property
    def positions(self) -> list[NodePosition]:
        """Where each node's stream can be resumed after what was taken so far."""
        return [
            NodePosition(node_id=node_id, position=position)
            for node_id, position in self._positions.items()
        ]

    @property
    def ready(self) -> bool:
        """Whether there is something to take."""
        waiting = self._buffers[:1] if self.secondaries_wait else self._buffers + self._leaving
        return any(waiting)

    def all(self) -> Iterator[WatchEventsResponse]:
        """Yield everything that was delivered by now: the primary's, then each secondary's."""
        return self._turn(None)

    def round(self) -> Iterator[WatchEventsResponse]:
        """Yield all that the primary has delivered by now, and a quota of each secondary.

        Neither starves the other.
        """
        return self._turn(self._quota)

    @property
    def secondaries_wait(self) -> bool:
        """Whether nothing of the secondaries may be taken now."""
        in_sync = bool(self._primaries) and all(self._primaries.values())
        return self._require_primary and not (in_sync and not self._buffers[0].abandoned)

    def _turn(self, quota: int | None) -> Iterator[WatchEventsResponse]:
        # A message leaves its buffer when it is yielded: a turn that is given up loses nothing.
        self._leaving = [buffer for buffer in self._leaving if buffer]
        for place, buffer in enumerate((*self._buffers, *self._leaving)):
            count = len(buffer)
            if place and quota is not None:
                count = min(count, quota)
            while count and buffer and not (place and self.secondaries_wait):
                yield self._take(place, buffer.pop())
                count -= 1

    def _take(self, place: int, delivery: Delivery) -> WatchEventsResponse:
        message = delivery.message
        if message.WhichOneof("kind") == "state":
            if not message.state.tier:
                self._note(message, is_primary=not place)
            return message
        if delivery.position is not None:
            self._positions[message.node_id] = delivery.position
        else:
            self._positions.pop(message.node_id, None)
        return message

    def _note(self, message: WatchEventsResponse, *, is_primary: bool) -> None:
        state = message.state.source
        if is_primary and message.node_id:
            self._primaries[message.node_id] = state == SourceState.SOURCE_STATE_LIVE
        if state == SourceState.SOURCE_STATE_REMOVED:
            self._positions.pop(message.node_id, None)
            self._primaries.pop(message.node_id, None)
