"""Following a node for one follower, until the ring can take over."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from kvtier.client.cursor import Cursor
from kvtier.client.errors import KvtierError
from kvtier.client.stream import SilentError
from kvtier.proxy.relay import Relay
from kvtier.proxy.standing import Standing
from kvtier.proxy.upstream import NodeStream, Source
from kvtier.proxy.wishes import Wishes
from kvtier.v1.block_pb2 import Position
from kvtier.v1.event_service_pb2 import SourceState, WatchEventsResponse

# How long a follower that is ahead of the ring waits for it, and when it tries again.
_RING_SECONDS: Final = 1.0
_AGAIN_SECONDS: Final = 5.0
_AWAY: Final = {SourceState.SOURCE_STATE_DOWN, SourceState.SOURCE_STATE_REMOVED}


class Broken(NamedTuple):
    """Why a node could not be followed to the end.

    Attributes:
        why: In a few words.
        retry_after: The shortest pause before it is tried again, in seconds.
    """

    why: str
    retry_after: float = 0.0


class CatchUp:
    """Hands a node's messages on as they are.

    What the node says again is left out: a follower that is in sync is not told so twice.

    Args:
        relay: The node.
        standing: What the follower was told; kept up to date.
        send: Sends one message.
    """

    def __init__(
        self, relay: Relay, standing: Standing, send: Callable[[bytes], Awaitable[None]]
    ) -> None:
        self._relay = relay
        self._standing = standing
        self._send = send
        self._clock = asyncio.get_running_loop().time
        self._next_try = 0.0

    async def run(self, source: Source, wishes: Wishes) -> Broken | None:
        """Follow the node; return None when the ring can take over, or what broke."""
        view = self._standing.view
        try:
            stream = source.open(self._relay.node_id, view, wishes)
        except KvtierError as error:
            return Broken(str(error))
        try:
            return await self._hand_on(stream, Cursor(view))
        except SilentError as error:
            return Broken(str(error))
        except KvtierError as error:
            return Broken(str(error), error.retry_after or 0.0)
        finally:
            stream.close()
            self._standing.confirmed = False

    async def _hand_on(self, stream: NodeStream, cursor: Cursor) -> Broken | None:
        is_proxy = False
        async for message in stream:
            kind = message.WhichOneof("kind") or ""
            is_proxy |= kind == "sources"
            if self._is_gone(message, kind, is_proxy=is_proxy):
                return Broken(f"node {self._relay.node_id} cannot be followed there any more")
            of_source = kind == "state" and not message.state.tier
            if of_source or message.node_id != self._relay.node_id:
                # The proxy says itself how the node stands, and the others are not asked for.
                continue
            problem = cursor.accept(message, kind)
            if problem is not None:
                return Broken(problem)
            await self._tell(message, kind)
            self._standing.confirmed |= kind == "synced"
            if self._standing.synced and await self._ring_has_it():
                return None
        return Broken("the node ended the stream")

    def _is_gone(self, message: WatchEventsResponse, kind: str, *, is_proxy: bool) -> bool:
        """Tell whether the node is elsewhere: who speaks there might go on without it for ever."""
        node_id = self._relay.node_id
        if kind == "sources":
            return node_id not in message.sources.node_ids
        if message.node_id != node_id:
            return not is_proxy
        return kind == "state" and message.state.source in _AWAY

    async def _tell(self, message: WatchEventsResponse, kind: str) -> None:
        standing = self._standing
        if kind == "synced" and standing.synced:
            return
        await self._send(message.SerializeToString())
        if kind == "reset":
            self._relay.told.resets[message.reset.reason] += 1
            standing.note_reset(message.epoch, message.through)
            return
        if kind == "synced":
            standing.note_synced()
        if kind not in {"state", "namespace"}:
            standing.move(message.epoch, message.through)

    async def _ring_has_it(self) -> bool:
        """Tell whether the ring holds the follower's position; one ahead of it waits a moment."""
        here = self._standing.view
        assert here is not None
        ring = self._relay.ring
        if ring is None or ring.over or not ring.ready or ring.log.epoch != here.epoch:
            return False
        if here.sequence > ring.log.head and self._clock() >= self._next_try:
            await self._wait_for(here)
            self._next_try = self._clock() + _AGAIN_SECONDS
        return ring is self._relay.ring and ring.holds(here)

    async def _wait_for(self, here: Position) -> None:
        ring = self._relay.ring
        assert ring is not None
        until = self._clock() + _RING_SECONDS
        while not ring.over and ring.log.head < here.sequence and self._clock() < until:
            await ring.log.wait(here.sequence - 1, until - self._clock())
