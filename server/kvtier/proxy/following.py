"""One follower of a proxy: the nodes that it is told of, from its first message to its last."""

import asyncio
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from typing import NoReturn

from kvtier.proxy.course import Course
from kvtier.proxy.relays import Carried, Relays
from kvtier.proxy.turnstile import Turnstile
from kvtier.proxy.upstream import Source
from kvtier.proxy.wishes import Wishes
from kvtier.server.events.pace import Pace
from kvtier.v1.event_service_pb2 import Sources, SourceState, WatchEventsResponse


@dataclass(frozen=True, slots=True)
class _Running:
    course: Course
    task: asyncio.Task[NoReturn]


class Following:
    """Keeps a course for each node behind the proxy, as nodes come and go.

    While no node says anything, the list of nodes is said again: so a follower knows that the
    proxy lives.

    Args:
        relays: The relays of all nodes.
        source: Where nodes are followed for this follower alone.
        wishes: What it asked for.
        turnstile: The way to it.
        pace: Times and sizes.
    """

    def __init__(
        self, relays: Relays, source: Source, wishes: Wishes, turnstile: Turnstile, pace: Pace
    ) -> None:
        self._relays = relays
        self._source = source
        self._wishes = wishes
        self._turnstile = turnstile
        self._pace = pace
        self._clock = asyncio.get_running_loop().time
        self._own_lane = turnstile.lane(first=True)
        self._positions = dict(wishes.positions)
        self._running: dict[str, _Running] = {}
        self._tasks: set[asyncio.Task[NoReturn]] = set()
        self._listed: list[str] | None = None

    async def run(self) -> NoReturn:
        """Tell of all nodes, without end.

        Raises:
            Exception: What the turnstile raises, or any part of this fails with.
        """
        self._begin(self._steer())
        try:
            await self._turnstile.run()
        finally:
            # A task group would be part of a circle, with all that the follower was sent.
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self._running.clear()

    def _begin(self, part: Coroutine[None, None, NoReturn]) -> asyncio.Task[NoReturn]:
        task = asyncio.create_task(part)
        self._tasks.add(task)
        task.add_done_callback(self._note_end)
        return task

    def _note_end(self, task: asyncio.Task[NoReturn]) -> None:
        self._tasks.discard(task)
        failure = None if task.cancelled() else task.exception()
        if failure is not None:
            self._turnstile.end(failure)

    async def _steer(self) -> NoReturn:
        while True:
            version = self._relays.version
            carried = {each.relay.node_id: each for each in self._relays.carried()}
            await self._stop(carried)
            await self._list()
            for each in carried.values():
                if each.relay.node_id not in self._running:
                    self._start(each)
            self._arrange(carried)
            for running in list(self._running.values()):
                await running.course.tell_state()
            self._turnstile.nudge()
            if self._relays.version == version:
                await self._relays.news.wait(max(0.01, self._quiet_until() - self._clock()))

    async def _stop(self, carried: dict[str, Carried]) -> None:
        for node_id, running in list(self._running.items()):
            now = carried.get(node_id)
            if now is None or now.relay is not running.course.relay:
                del self._running[node_id]
                running.task.cancel()
                await running.course.tell_removal()

    def _start(self, carried: Carried) -> None:
        relay = carried.relay
        course = Course(
            relay,
            self._wishes,
            self._turnstile.lane(first=carried.primary),
            self._source,
            self._pace,
            position=self._positions.pop(relay.node_id, None),
        )
        self._running[relay.node_id] = _Running(course, self._begin(course.run()))

    def _arrange(self, carried: Iterable[str]) -> None:
        lanes = [self._running[node_id].course.lane for node_id in carried]
        lanes.sort(key=lambda lane: not lane.first)
        self._turnstile.arrange([self._own_lane, *lanes])

    async def _list(self) -> None:
        there = dict.fromkeys(self._relays.node_ids())
        if not self._relays.complete:
            # One that was not heard of yet may be one that the follower knows.
            there |= dict.fromkeys(self._positions)
        # Who is told that a node is not there forgets where it was.
        self._positions = {n: p for n, p in self._positions.items() if n in there}
        nodes = list(there)
        if nodes == self._listed and self._clock() < self._quiet_until():
            return
        self._listed = nodes
        message = WatchEventsResponse(sources=Sources(node_ids=nodes)).SerializeToString()
        await self._own_lane.say(lambda: message)

    def _quiet_until(self) -> float:
        return self._turnstile.last_sent + self._pace.heartbeat_interval


def primary_is_live(relays: Relays) -> bool:
    """Tell whether every node behind the primary's address is in sync."""
    primaries = [each.relay for each in relays.carried() if each.primary]
    live = SourceState.SOURCE_STATE_LIVE
    return bool(primaries) and all(relay.state == live for relay in primaries)
