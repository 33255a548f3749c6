"""Following a node for as long as the caller wants."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Self

import grpc

from kvtier.client.arguments import bad_argument
from kvtier.client.backoff import Backoff
from kvtier.client.closing import Closing
from kvtier.client.cursor import Cursor
from kvtier.client.errors import KvtierError
from kvtier.client.node import NodeClient
from kvtier.client.stream import EventStream, Listener, SilentError, source_state, watch_request
from kvtier.v1.block_pb2 import Medium, Position
from kvtier.v1.event_service_pb2 import (
    EventView,
    NodePosition,
    SourceState,
    WatchEventsResponse,
)
from kvtier.wire.errors import quote

# Messages read ahead of the caller: enough to keep the stream moving, few enough to hold.
_AHEAD = 16

# Trying again cannot help: the request itself is refused. UNIMPLEMENTED is none of these: it is
# what a stranger says that holds a node's address for a while, or a proxy before a node is there.
_FINAL = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNAUTHENTICATED,
    }
)


class Watch(Closing):
    """The events of a node, without end: a broken stream is resumed where it broke.

    Iterate over it for `WatchEventsResponse` messages, as the node sends them. Within a source they
    are delivered in order, each once, and none is missing: a stream that breaks, falls silent for
    three heartbeats, or skips a sequence is opened anew from the last position at which the view
    was complete, after a random pause of at most 5 s. One that fell silent is opened over a new
    connection, which the client's other calls use too from then on. When the node cannot resume
    there, a reset and a snapshot follow, as the stream's grammar says.

    What the watch sees of the source itself comes in between, as `State` messages without a tier:
    CONNECTING, SNAPSHOT, LIVE, SUSPECT and DOWN, each when it begins, with a reason. They name the
    node once it is known, and carry its last position.

    The watch ends when it is closed. It raises a `KvtierError`, and is closed, when trying again
    cannot help: a malformed request, an unknown tier, no access. Where a certificate or token comes
    from files, which may be renewed, the source is DOWN while it is not accepted, and tried again.
    Use it as an asynchronous context manager, or call `close()`. One task reads it; a read that is
    cancelled loses nothing.

    Args:
        client: The node's client; it stays open when the watch is closed.
        positions: Where to resume; a node not named starts with a reset and a snapshot.
        tiers: Names of tiers to see; none means all.
        media: Media to see; none means all.
        namespaces: Fingerprints to see; none means all.
        view: How much of each block to send.
        heartbeat_interval: The longest that the node is silent, in seconds. A server sends a
            heartbeat at least every second, whatever its settings.
        backoff: The pauses before a broken stream is opened anew.
        clock: Monotonic seconds.
        sleep: Waits for seconds.

    Attributes:
        breaks: Streams that broke, for any reason.
        gaps: Those of them that were given up because a message did not follow on the last.
    """

    def __init__(
        self,
        client: NodeClient,
        *,
        positions: Sequence[NodePosition] = (),
        tiers: Sequence[str] = (),
        media: Sequence[Medium.ValueType] = (),
        namespaces: Sequence[bytes] = (),
        view: EventView.ValueType = EventView.EVENT_VIEW_BASIC,
        heartbeat_interval: float = 1.0,
        backoff: Backoff | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        if not heartbeat_interval > 0:
            raise bad_argument(
                f"heartbeat_interval must be more than 0 s; got {quote(heartbeat_interval)}"
            )
        self.breaks = 0
        self.gaps = 0
        self._client = client
        self._request = watch_request(
            positions=positions, tiers=tiers, media=media, namespaces=namespaces, view=view
        )
        self._heartbeat_interval = heartbeat_interval
        self._backoff = backoff or Backoff()
        self._clock = clock
        self._sleep = sleep
        known = {p.node_id: p.position for p in positions if p.HasField("position")}
        self._cursors = {node_id: Cursor(position) for node_id, position in known.items()}
        self._states: dict[str, SourceState.ValueType] = {}
        self._ready: deque[tuple[WatchEventsResponse, Position | None]] = deque()
        self._delivered = known
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._reader: asyncio.Task[None] | None = None
        self._at_least = 0.0
        self._opened = 0.0
        self._rests = False
        # The stream named its nodes: it is a proxy's.
        self._listed = False
        self._error: Exception | None = None
        self._closed = False

    @property
    def positions(self) -> list[NodePosition]:
        """Where another watch can go on after the message that was delivered last."""
        return [
            NodePosition(node_id=node_id, position=position)
            for node_id, position in self._delivered.items()
        ]

    def position_of(self, node_id: str) -> Position | None:
        """Return where a node's stream can be resumed after the message that was delivered last."""
        return self._delivered.get(node_id)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WatchEventsResponse:
        while not self._ready:
            self._raise_if_ended()
            if self._reader is None:
                self._reader = asyncio.create_task(self._read())
            self._arrived.clear()
            await self._arrived.wait()
        message, position = self._ready.popleft()
        self._room.set()
        if position is not None and message.node_id in self._cursors:
            self._delivered[message.node_id] = position
        else:
            self._delivered.pop(message.node_id, None)
        return message

    async def close(self) -> None:
        """End the watch, also while it is read. Closing twice is harmless."""
        self._closed = True
        self._ready.clear()
        self._arrived.set()
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.wait({self._reader})

    def rewind(self, flaw: str = "") -> None:
        """Forget every position: next come a reset and a snapshot.

        Args:
            flaw: What was wrong with the events, if that is why. Then the source is told to be
                SUSPECT, and the next stream is opened after a pause, as after one that broke.
        """
        if self._reader is not None:
            self._reader.cancel()
            self._reader = None
            self._arrived.set()
        self._ready.clear()
        self._states.clear()
        self._delivered.clear()
        self._cursors = {node_id: Cursor() for node_id in self._cursors}
        if flaw:
            self._rests = True
            self._broke(flaw, suspect=True)

    def _raise_if_ended(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            self._closed = True
            raise error
        if self._closed:
            raise StopAsyncIteration

    async def _read(self) -> None:
        """Read ahead of the caller, so that a read which it cancels costs no stream."""
        try:
            if self._rests:
                await self._rest()
            self._tell(SourceState.SOURCE_STATE_CONNECTING, "")
            while True:
                self._opened = self._clock()
                await self._follow()
                await self._rest()
        except Exception as error:  # noqa: BLE001 - the caller's next read raises it
            self._error = error
            self._arrived.set()

    async def _rest(self) -> None:
        # A stream that broke early counts on: a node that breaks each is not hammered.
        if self._clock() - self._opened >= self._backoff.cap:
            self._backoff.reset()
        await self._sleep(self._backoff.next(self._at_least))
        self._rests = False

    async def _follow(self) -> None:
        """Read one stream until it breaks."""
        listener = Listener(self._open(), self._heartbeat_interval, self._sleep)
        self._at_least = 0.0
        try:
            async for message in listener:
                problem = self._take(message)
                if problem is not None:
                    self.gaps += 1
                    self._broke(problem, suspect=True)
                    return
                while len(self._ready) >= _AHEAD:
                    self._room.clear()
                    await self._room.wait()
            self._broke("the node ended the stream")
        except SilentError as error:
            self._broke(str(error), suspect=error.heard)
        except KvtierError as error:
            if error.code in _FINAL and not self._may_be_renewed(error):
                raise
            self._at_least = error.retry_after or 0.0
            self._broke(str(error))
        finally:
            listener.close()

    def _may_be_renewed(self, error: KvtierError) -> bool:
        """Tell whether who the caller is may be in order when the stream is opened anew."""
        credentials = self._client.credentials
        unknown = error.code is grpc.StatusCode.UNAUTHENTICATED
        return unknown and credentials is not None and credentials.renewable

    def _open(self) -> EventStream:
        self._listed = False
        for cursor in self._cursors.values():
            cursor.reopen()
        return self._client.watch_events(
            positions=[
                NodePosition(node_id=node_id, position=cursor.position)
                for node_id, cursor in self._cursors.items()
                if cursor.position is not None
            ],
            tiers=self._request.tiers,
            media=self._request.media,
            namespaces=self._request.namespaces,
            view=self._request.view,
        )

    def _take(self, message: WatchEventsResponse) -> str | None:
        """Queue a message for the caller, or return why it may not come now."""
        kind = message.WhichOneof("kind") or ""
        if kind == "sources":
            self._listed = True
            self._leave_out(self._cursors.keys() - set(message.sources.node_ids))
            self._ready.append((message, None))
            self._arrived.set()
            return None
        cursor = self._cursors.setdefault(message.node_id, Cursor())
        problem = cursor.accept(message, kind)
        if problem is not None:
            return problem
        self._queue(message, cursor)
        if kind == "reset":
            self._tell_of(message.node_id, SourceState.SOURCE_STATE_SNAPSHOT, "")
        elif kind == "synced":
            self._tell_of(message.node_id, SourceState.SOURCE_STATE_LIVE, "")
        return None

    def _broke(self, reason: str, *, suspect: bool = False) -> None:
        self.breaks += 1
        self._leave_out_who_is_gone()
        state = SourceState.SOURCE_STATE_SUSPECT if suspect else SourceState.SOURCE_STATE_DOWN
        self._tell(state, reason)

    def _leave_out_who_is_gone(self) -> None:
        """Forget a node that said nothing on a stream on which another one spoke in its place."""
        heard = {node_id for node_id, cursor in self._cursors.items() if cursor.heard}
        if heard and not self._listed:
            self._leave_out(self._cursors.keys() - heard)

    def _leave_out(self, gone: Collection[str]) -> None:
        for node_id in gone:
            del self._cursors[node_id]
            self._states.pop(node_id, None)
            self._delivered.pop(node_id, None)

    def _tell(self, state: SourceState.ValueType, reason: str) -> None:
        endpoint = self._client.endpoint
        told = reason if endpoint in reason else f"{endpoint}: {reason}" if reason else endpoint
        for node_id in self._cursors or ("",):
            self._tell_of(node_id, state, told)

    def _tell_of(self, node_id: str, state: SourceState.ValueType, reason: str) -> None:
        if self._states.get(node_id) == state:
            return
        self._states[node_id] = state
        cursor = self._cursors.get(node_id) or Cursor()
        self._queue(source_state(node_id, cursor.place, state, reason), cursor)

    def _queue(self, message: WatchEventsResponse, cursor: Cursor) -> None:
        self._ready.append((message, cursor.position))
        self._arrived.set()
