"""EventService: following a node's events."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol
from weakref import WeakValueDictionary

from kvtier.server.events.feed import Feed
from kvtier.server.events.filter import EventFilter
from kvtier.server.events.follower import Follower, Pace
from kvtier.server.events.line import Line
from kvtier.server.events.messages import Messages
from kvtier.server.events.request import check_request
from kvtier.server.events.snapshot import SnapshotSlots
from kvtier.server.events.source import EventSource
from kvtier.server.events.stall import Stall
from kvtier.v1.event_service_pb2 import WatchEventsRequest
from kvtier.wire.errors import Reason, exhausted


class Send(Protocol):
    """Sends the messages of one call."""

    def __call__(self, message: bytes, /) -> Awaitable[None]:
        """Send one encoded WatchEventsResponse; may wait for the follower to read."""
        ...

    def when_over(self, act: Callable[[], None]) -> None:
        """Call back when nothing of the call is left, not even an unread status."""
        ...


class EventService:
    """Serves the followers of one node.

    A follower that was given up and whose peer keeps the call open without reading it is no
    follower any more, but gRPC can neither take back what it was sent nor end its call. There may
    be as many of those as followers.

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
        self._calls = 0
        self._slots = SnapshotSlots(max_snapshots, pace.heartbeat_interval)
        self._messages = Messages(source.node_id, source.log.epoch)
        self._feeds: WeakValueDictionary[EventFilter, Feed] = WeakValueDictionary()

    async def watch_events(self, request: WatchEventsRequest, send: Send) -> None:
        """Follow the node until the follower leaves or the node drains.

        Args:
            request: The request.
            send: The way back.

        Raises:
            KvtierError: As the RPC's comment says.
        """
        source, log = self._source, self._source.log
        position, wanted = check_request(request, source)
        self._admit()
        send.when_over(self._call_is_over)
        line = Line(source, self._messages, wanted, send, self._pace.stall_timeout)
        follower = Follower(source, self._feed(wanted), line, self._slots, self._pace)
        stall = Stall(line, min(self._pace.stall_timeout, self._pace.snapshot_stall_timeout))
        source.followers += 1
        drained = asyncio.create_task(source.draining.wait())
        drained.add_done_callback(lambda _: log.wake())
        try:
            await stall.guard(follower.run(position))
        finally:
            drained.cancel()
            source.followers -= 1

    def _admit(self) -> None:
        followers, limit = self._source.followers, self._max_followers
        if followers < limit and self._calls < 2 * limit:
            self._calls += 1
            return
        given_up = self._calls - followers
        raise exhausted(
            f"node {self._source.node_id} has {followers} followers and {given_up} that were given "
            f"up and still hold their call; the limit of each is {limit}: raise limits.followers, "
            "or end calls that nobody reads",
            Reason.FOLLOWER_LIMIT,
            retry_after=1.0,
        )

    def _call_is_over(self) -> None:
        self._calls -= 1

    def _feed(self, wanted: EventFilter) -> Feed:
        feed = self._feeds.get(wanted)
        if feed is None:
            feed = Feed(self._source.log, self._messages, wanted, self._pace.message_bytes)
            self._feeds[wanted] = feed
        return feed
