"""EventService: following a node's events."""

import asyncio
from weakref import WeakValueDictionary

from kvtier.server.events.feed import Feed
from kvtier.server.events.filter import EventFilter
from kvtier.server.events.follower import Follower, Pace
from kvtier.server.events.line import Line, Send
from kvtier.server.events.messages import Messages
from kvtier.server.events.request import check_request
from kvtier.server.events.snapshot import SnapshotSlots
from kvtier.server.events.source import EventSource
from kvtier.v1.event_service_pb2 import WatchEventsRequest
from kvtier.wire.errors import Reason, exhausted


class EventService:
    """Serves the followers of one node.

    Args:
        source: The node.
        pace: Times and sizes of every follower's messages.
        max_followers: Most followers at one time.
        max_snapshots: Most snapshots under way at one time.
    """

    def __init__(
        self, source: EventSource, pace: Pace, *, max_followers: int, max_snapshots: int
    ) -> None:
        self._source = source
        self._pace = pace
        self._max_followers = max_followers
        self._slots = SnapshotSlots(max_snapshots, pace.heartbeat_interval)
        self._messages = Messages(source.node_id, source.log.epoch)
        self._feeds: WeakValueDictionary[EventFilter, Feed] = WeakValueDictionary()

    async def watch_events(self, request: WatchEventsRequest, send: Send) -> None:
        """Follow the node until the follower leaves or the node drains.

        Args:
            request: The request.
            send: Sends one encoded WatchEventsResponse; may wait for the follower to read.

        Raises:
            KvtierError: As the RPC's comment says.
        """
        source, log = self._source, self._source.log
        position, wanted = check_request(request, source)
        if source.followers >= self._max_followers:
            raise exhausted(
                f"node {source.node_id} has {source.followers} followers, which is the limit; "
                "raise limits.followers or follow through a proxy",
                Reason.FOLLOWER_LIMIT,
                retry_after=1.0,
            )
        line = Line(source, self._messages, wanted, send)
        follower = Follower(source, self._feed(wanted), line, self._slots, self._pace)
        source.followers += 1
        drained = asyncio.create_task(source.draining.wait())
        drained.add_done_callback(lambda _: log.wake())
        try:
            await follower.run(position)
        finally:
            drained.cancel()
            source.followers -= 1

    def _feed(self, wanted: EventFilter) -> Feed:
        feed = self._feeds.get(wanted)
        if feed is None:
            feed = Feed(self._source.log, self._messages, wanted, self._pace.message_bytes)
            self._feeds[wanted] = feed
        return feed
