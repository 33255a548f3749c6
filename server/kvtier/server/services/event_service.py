"""EventService: following a node's events."""

import asyncio
from collections import Counter

from kvtier.server.events.feed import Feeds
from kvtier.server.events.follower import Follower, lacks_events
from kvtier.server.events.line import Line
from kvtier.server.events.live import sent_off
from kvtier.server.events.messages import Messages
from kvtier.server.events.pace import Pace
from kvtier.server.events.request import check_request
from kvtier.server.events.snapshot import SnapshotSlots
from kvtier.server.events.source import EventSource
from kvtier.server.events.stall import Stall
from kvtier.server.services.admission import Admission, Send
from kvtier.v1.event_service_pb2 import WatchEventsRequest


class EventService:
    """Serves the followers of one node.

    Args:
        source: The node.
        pace: Times and sizes of every follower's messages.
        max_followers: Most followers at one time.
        max_snapshots: Most snapshots under way at one time.

    Attributes:
        resets: How many resets followers were sent, by `ResetReason`.
        slots: Where snapshots are counted.
    """

    def __init__(
        self, source: EventSource, pace: Pace, *, max_followers: int, max_snapshots: int
    ) -> None:
        self._source = source
        self._pace = pace
        self._admission = Admission(f"node {source.node_id}", max_followers)
        self.resets: Counter[int] = Counter()
        self.slots = SnapshotSlots(max_snapshots, pace.heartbeat_interval)
        self._lines: set[Line] = set()
        self._messages = Messages(source.node_id, source.log.epoch)
        self._feeds = Feeds(source.log, self._messages, pace.message_bytes)

    @property
    def lag(self) -> int:
        """How many batches the follower that is furthest behind was not sent yet."""
        head = self._source.log.head
        return max((head - line.told for line in self._lines), default=0)

    async def watch_events(self, request: WatchEventsRequest, send: Send) -> None:
        """Follow the node until the follower leaves or the node drains.

        Of a node that has drained a follower can get only the events that it lacks.

        Args:
            request: The request.
            send: The way back.

        Raises:
            KvtierError: As the RPC's comment says.
        """
        source, log = self._source, self._source.log
        position, wanted = check_request(request, source)
        if source.draining.is_set() and not lacks_events(log, position):
            # Blocks of a drained node cannot be loaded: nobody is to take it for one that lives.
            raise sent_off()
        with self._admission.let_in(send):
            line = Line(source, self._messages, wanted, send, self._pace.stall_timeout)
            feed = self._feeds.of(wanted)
            follower = Follower(source, feed, line, self.slots, self._pace, resets=self.resets)
            stall = Stall(line, min(self._pace.stall_timeout, self._pace.snapshot_stall_timeout))
            source.followers += 1
            self._lines.add(line)
            drained = asyncio.create_task(source.draining.wait())
            drained.add_done_callback(lambda _: log.wake())
            try:
                await stall.guard(follower.run(position))
            finally:
                drained.cancel()
                source.followers -= 1
                self._lines.discard(line)
