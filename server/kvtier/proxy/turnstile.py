"""Several nodes take turns on the one way to a follower."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, NoReturn

Send = Callable[[bytes], Awaitable[None]]


class _Waiting(NamedTuple):
    compose: Callable[[], bytes | None]
    sent: asyncio.Future[None]


class Lane:
    """One node's place at a turnstile.

    Args:
        arrived: Called when a message waits.
        first: It is of the primary.

    Attributes:
        first: As given.
        catching_up: What is sent is a snapshot, or what came before the live events.
        reach: Tells the position that the follower was told, and that the node has come to.
    """

    def __init__(self, arrived: Callable[[], None], *, first: bool) -> None:
        self.first = first
        self.catching_up = False
        self.reach: Callable[[], tuple[int, int]] = lambda: (0, 0)
        self._arrived = arrived
        self._events: deque[_Waiting] = deque()
        self._asides: deque[_Waiting] = deque()

    async def send(self, message: bytes) -> None:
        """Send a message when it is this lane's turn, and return when it was sent."""
        await self._wait(self._events, lambda: message)

    async def say(self, compose: Callable[[], bytes | None]) -> None:
        """Send something beside the events, at once and whether or not these are held up.

        Args:
            compose: Makes the message when it is sent, if there is anything to be said then.
        """
        await self._wait(self._asides, compose)

    def waits(self, *, held: bool) -> bool:
        """Tell whether a message waits that may be sent now."""
        return bool(self._asides or (self._events and not held))

    def take(self) -> _Waiting:
        """Return the next message."""
        return (self._asides or self._events).popleft()

    async def _wait(self, queue: deque[_Waiting], compose: Callable[[], bytes | None]) -> None:
        waiting = _Waiting(compose, asyncio.get_running_loop().create_future())
        queue.append(waiting)
        self._arrived()
        try:
            await waiting.sent
        except asyncio.CancelledError:
            if waiting in queue:
                queue.remove(waiting)
            raise


class Turnstile:
    """Sends what the lanes of one follower have, in rounds.

    A round is all that the primary had at its start, then at most a quota of messages of each
    secondary that has something now. No lane waits for what another one has not got yet.

    Args:
        send: Sends one message; waits as long as the follower does not read.
        quota: Most messages of one secondary in a round.
        holds: Tells whether what the secondaries bring has to wait.
        patience: How long a message may wait to be read, in seconds.
        catch_up_patience: The same while a lane catches up.

    Attributes:
        waits_since: Since when a message waits to be read, in the loop's time; None when none does.
        last_sent: When a message was sent last, in the loop's time.
    """

    def __init__(
        self,
        send: Send,
        *,
        quota: int,
        holds: Callable[[], bool],
        patience: float,
        catch_up_patience: float,
    ) -> None:
        self._clock = asyncio.get_running_loop().time
        self.waits_since: float | None = None
        self.last_sent = self._clock()
        self._send = send
        self._quota = quota
        self._holds = holds
        self._patience = patience
        self._catch_up_patience = catch_up_patience
        self._lanes: list[Lane] = []
        self._arrived = asyncio.Event()
        self._end: BaseException | None = None

    @property
    def patience(self) -> float:
        """How long one message may wait to be read, in seconds; `Stall` sees to it."""
        catching_up = any(lane.catching_up for lane in self._lanes)
        return self._catch_up_patience if catching_up else self._patience

    def lane(self, *, first: bool) -> Lane:
        """Return a new lane, behind those that there are."""
        lane = Lane(self.nudge, first=first)
        self._lanes.append(lane)
        return lane

    def arrange(self, lanes: Sequence[Lane]) -> None:
        """Serve these lanes in this order from now on, and no other."""
        self._lanes = list(lanes)

    def nudge(self) -> None:
        """Look again what waits."""
        self._arrived.set()

    def end(self, error: BaseException) -> None:
        """Send nothing more after the message that is being sent, and raise an error."""
        self._end = error
        self.nudge()

    async def run(self) -> NoReturn:
        """Send without end.

        Raises:
            BaseException: That given to `end`, or what sending raises.
        """
        while True:
            self._arrived.clear()
            while any(lane.waits(held=self._held(lane)) for lane in self._lanes):
                await self._round()
            self._check()
            await self._arrived.wait()

    async def _round(self) -> None:
        lanes = tuple(self._lanes)
        marks = {lane: lane.reach()[1] for lane in lanes if lane.first}
        for lane in lanes:
            served, mark = 0, marks.get(lane, 0)
            while lane.waits(held=self._held(lane)) and (
                served < self._quota or lane.reach()[0] < mark
            ):
                await self._serve(lane)
                served += 1

    async def _serve(self, lane: Lane) -> None:
        self._check()
        waiting = lane.take()
        message = waiting.compose()
        if message is not None:
            self.waits_since = self._clock()
            await self._send(message)
            self.waits_since = None
            self.last_sent = self._clock()
        if not waiting.sent.done():
            waiting.sent.set_result(None)
        # Whose message it was takes note of it now, and may bring its next one.
        await asyncio.sleep(0)

    def _held(self, lane: Lane) -> bool:
        return not lane.first and self._holds()

    def _check(self) -> None:
        end, self._end = self._end, None
        if end is not None:
            try:
                raise end
            finally:
                # The error leads here: to keep it would close a circle.
                del end
