"""One node, told to one follower."""

import asyncio
from typing import Final, NoReturn

import structlog

from kvtier.client.backoff import Backoff
from kvtier.client.stream import source_state
from kvtier.proxy.catching_up import CatchUp
from kvtier.proxy.line import RingLine
from kvtier.proxy.relay import Relay
from kvtier.proxy.ring import Ring
from kvtier.proxy.standing import Standing
from kvtier.proxy.turnstile import Lane
from kvtier.proxy.upstream import Source
from kvtier.proxy.wishes import Wishes
from kvtier.server.events.follower import reset_reason
from kvtier.server.events.live import Live
from kvtier.server.events.log import Lagged
from kvtier.server.events.pace import Pace
from kvtier.server.events.snapshot import blocks_at
from kvtier.v1.block_pb2 import Position
from kvtier.v1.event_service_pb2 import ResetReason, SourceState

_log = structlog.get_logger(__name__)

_LIVE = SourceState.SOURCE_STATE_LIVE
_SNAPSHOT = SourceState.SOURCE_STATE_SNAPSHOT
_REMOVED = SourceState.SOURCE_STATE_REMOVED
# How often a course that waits for its node looks, if nothing wakes it.
_LOOK_SECONDS: Final = 1.0


class Course:
    """Tells one follower of one node, without end.

    From a position that the ring holds it goes on from the ring. Else the node itself is followed
    for this follower, until the ring holds the position that the follower has come to. Whatever
    breaks in between, the follower goes on from its last position, or starts over.

    Args:
        relay: The node.
        wishes: What the follower asked for.
        lane: The node's place on the way to the follower.
        source: Where the node itself is followed.
        pace: Times and sizes.
        position: Where the follower is; None when it has to start over.
        backoff: The pauses before the node is followed again.
    """

    def __init__(
        self,
        relay: Relay,
        wishes: Wishes,
        lane: Lane,
        source: Source,
        pace: Pace,
        *,
        position: Position | None,
        backoff: Backoff | None = None,
    ) -> None:
        self.relay = relay
        self.lane = lane
        self._wishes = wishes
        self._source = source
        self._pace = pace
        self._backoff = backoff or Backoff()
        self._standing = Standing(position)
        self._places = source.places(relay.node_id)
        self._line: RingLine | None = None

    async def run(self) -> NoReturn:
        """Send everything that the follower is to be told of the node."""
        while True:
            ring = self.relay.ring
            if ring is not None and self._can_go_on(ring):
                await self._go_on(ring)
            elif self._wishes.nothing_at(ring):
                await self._start_at(ring)
            else:
                await self._catch_up()

    async def tell_state(self) -> None:
        """Tell the state of the node, if the follower believes another one."""
        if self._has_news:
            await self.lane.say(self._news_of_state)

    async def tell_removal(self) -> None:
        """Tell that the node is not followed any more."""
        removed = self.relay.state == _REMOVED
        reason = self.relay.reason if removed else "it is not behind the proxy any more"
        await self.lane.say(lambda: self._state(_REMOVED, reason))

    def _can_go_on(self, ring: Ring) -> bool:
        here = self._standing.view
        if here is None or not ring.holds(here):
            return False
        counted = ring.counted_from is not None and ring.counted_from <= here.sequence
        return self._standing.synced or counted or self._wishes.nothing_at(ring)

    async def _go_on(self, ring: Ring) -> None:
        """Follow the ring until it does not hold the follower's position any more."""
        here, wanted = self._standing.view, self._wishes.at(ring)
        assert here is not None
        line = RingLine(self.relay, ring, wanted, self.lane.send)
        live = Live(ring, ring.feeds.of(wanted), line, self._pace)
        try:
            blocks = 0 if self._standing.synced else await blocks_at(ring, wanted, here.sequence)
            live.cursor = line.told = here.sequence
            self._board(line, ring)
            await line.introduce()
            if not self._standing.synced:
                await line.synced(line.told, blocks)
                self._standing.note_synced()
            await self.tell_state()
            self._backoff.reset()
            await live.follow()
        except Lagged:
            pass
        finally:
            self._leave(ring)

    def _board(self, line: RingLine, ring: Ring) -> None:
        self._line = line
        self.lane.reach = lambda: (line.told, ring.log.head)

    def _leave(self, ring: Ring) -> None:
        if self._line is not None:
            self._standing.move(ring.log.epoch, self._line.told)
            self._line = None
            self.lane.reach = lambda: (0, 0)

    async def _start_at(self, ring: Ring | None) -> None:
        """Tell a follower of whose tiers the node has none that nothing passes, from now on."""
        assert ring is not None
        here, head = self._standing.view, ring.head
        reason = ResetReason.RESET_REASON_NO_POSITION
        if here is not None:
            reason = reset_reason(ring.log, here) or ResetReason.RESET_REASON_LAGGED
        self.relay.told.resets[reason] += 1
        # What it was told last may lie in another life of the log, or ahead of this one.
        await self.lane.send(ring.messages.reset(head.sequence, head.sequence, reason))
        self._standing.note_reset(head.epoch, head.sequence)
        self._standing.view = head

    async def _catch_up(self) -> None:
        """Follow the node itself until the ring can take over, or it breaks."""
        await self._until_in_touch()
        async with self._places:
            ring = self.relay.ring
            if ring is not None and (self._can_go_on(ring) or self._wishes.nothing_at(ring)):
                return
            self.lane.catching_up = True
            self.relay.told.catch_ups += 1
            catch_up = CatchUp(self.relay, self._standing, self.lane.send)
            try:
                broken = await catch_up.run(self._source, self._wishes)
            finally:
                self.lane.catching_up = False
                self.relay.told.catch_ups -= 1
        if broken is not None:
            _log.debug("a follower's own stream broke", node_id=self.relay.node_id, why=broken.why)
            await asyncio.sleep(self._backoff.next(broken.retry_after))

    async def _until_in_touch(self) -> None:
        while not self.relay.in_touch:
            await self.relay.news.wait(_LOOK_SECONDS)

    @property
    def _in_sync(self) -> bool:
        if self._line is not None:
            return self._standing.synced and not self._line.over
        return self._standing.confirmed

    @property
    def _has_news(self) -> bool:
        """Whether the follower believes what is not so; LIVE is told once it hears of the node."""
        state = self.relay.state
        known = state in {self._standing.believed, _SNAPSHOT}
        return not known and (state != _LIVE or self._in_sync)

    def _news_of_state(self) -> bytes | None:
        if not self._has_news:
            return None
        self._standing.believed = self.relay.state
        return self._state(self.relay.state, self.relay.reason)

    def _state(self, state: SourceState.ValueType, reason: str) -> bytes:
        epoch, told = self._standing.place
        if self._line is not None:
            told = self._line.told
        message = source_state(self.relay.node_id, (epoch, told), state, reason)
        return message.SerializeToString()
