"""A follower that the test can stop from reading, and that remembers what it was sent."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kvtier.server.events.pace import Pace
from kvtier.server.events.source import EventSource
from kvtier.server.services.event_service import EventService
from kvtier.v1.event_service_pb2 import WatchEventsRequest, WatchEventsResponse
from kvtier.wire.errors import KvtierError

from .fold import Fold
from .virtual_time import now


def serve(
    source: EventSource, *, max_followers: int = 16, max_snapshots: int = 8, **pace: Any
) -> EventService:
    """Return the service of a node."""
    return EventService(
        source, Pace(**pace), max_followers=max_followers, max_snapshots=max_snapshots
    )


class Call:
    """The way back to one follower.

    Args:
        take: Takes each message.
    """

    def __init__(self, take: Callable[[bytes], Awaitable[None]]) -> None:
        self._take = take
        self._at_the_end: list[Callable[[], None]] = []

    def __call__(self, message: bytes) -> Awaitable[None]:
        return self._take(message)

    def when_over(self, act: Callable[[], None]) -> None:
        self._at_the_end.append(act)

    def end(self) -> None:
        """Have the status taken too."""
        while self._at_the_end:
            self._at_the_end.pop()()


class Reader:
    """One follower of a service.

    Attributes:
        raw: The messages as they came.
        messages: The same, parsed.
        times: When each came.
        fold: The view folded from them.
        error: What the stream ended with.
        delay: How long reading one message takes, in seconds.
        call: The way back to it, which ends with its status, or when it leaves.
    """

    def __init__(self, service: EventService, *, fold: Fold | None = None, **request: Any) -> None:
        self.raw: list[bytes] = []
        self.messages: list[WatchEventsResponse] = []
        self.times: list[float] = []
        filtered = any(request.get(name) for name in ("tiers", "media", "namespaces"))
        self.fold = fold or Fold(filtered=filtered)
        self.error: KvtierError | None = None
        self.delay = 0.0
        self.call = Call(self._take)
        self._reading = asyncio.Event()
        self._reading.set()
        self._service = service
        self._request = request
        self._task: asyncio.Task[None] | None = None

    @property
    def ended(self) -> bool:
        return self.error is not None or self._task is None or self._task.done()

    @property
    def kinds(self) -> list[str]:
        return [message.WhichOneof("kind") or "" for message in self.messages]

    def start(self) -> "Reader":
        """Connect, from where the view is."""
        positions = self._request.get("positions", self.fold.positions())
        self.fold.connect()
        request = WatchEventsRequest(**{**self._request, "positions": positions})
        self._task = asyncio.create_task(self._watch(request))
        return self

    def stall(self) -> None:
        """Take no more messages."""
        self._reading.clear()

    def read_on(self) -> None:
        """Take messages again."""
        self._reading.set()

    async def leave(self) -> None:
        """Go away without a word."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def until(self, kind: str, turn: float = 0) -> None:
        """Wait for a message of a kind, looking every turn of so many seconds."""
        while kind not in self.kinds:  # noqa: ASYNC110 - each turn of the loop counts
            await asyncio.sleep(turn)

    async def until_through(self, sequence: int, turn: float = 0) -> None:
        """Wait until a sequence is accounted for, looking every turn of so many seconds."""
        while self.fold.through < sequence and not self.ended:  # noqa: ASYNC110 - as above
            await asyncio.sleep(turn)

    async def until_next(self, kind: str) -> None:
        """Wait for another message of a kind."""
        seen = self.kinds.count(kind)
        while self.kinds.count(kind) == seen:  # noqa: ASYNC110 - each turn of the loop counts
            await asyncio.sleep(0)

    async def _watch(self, request: WatchEventsRequest) -> None:
        try:
            await self._service.watch_events(request, self.call)
        except KvtierError as error:
            self.error = error
            await self._reading.wait()
        finally:
            self.call.end()

    async def _take(self, message: bytes) -> None:
        await self._reading.wait()
        await asyncio.sleep(self.delay)
        self.raw.append(message)
        self.times.append(now())
        self.messages.append(WatchEventsResponse.FromString(message))
        self.fold.apply(self.messages[-1])
