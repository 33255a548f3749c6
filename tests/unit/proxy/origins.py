"""Nodes of plain lists: what a proxy hears of them, and when, is the test's to say."""

import asyncio
from collections.abc import AsyncIterator

from kvtier.client.stream import source_state
from kvtier.proxy.wishes import Wishes
from kvtier.server.events.bell import Bell
from kvtier.v1.block_pb2 import Position
from kvtier.v1.event_service_pb2 import ResetReason, SourceState, WatchEventsResponse
from kvtier.wire.errors import Reason, unavailable
from tests.unit.client.messages import Script, cleared, removed, stored

LIVE = SourceState.SOURCE_STATE_LIVE
DOWN = SourceState.SOURCE_STATE_DOWN


class Origin:
    """A node: its log, which forgets what it is told to, and the blocks that it holds.

    Attributes:
        node_id: Its id.
        epoch: The life of its log.
        blocks: What it holds, by number.
        oldest: The lowest position from which its log can be gone on from.
        opened: Where each stream began, None for a snapshot.
        reachable: Streams can be opened.
    """

    def __init__(self, node_id: str, epoch: int = 7) -> None:
        self.node_id = node_id
        self.blocks: set[int] = set()
        self.opened: list[Position | None] = []
        self.reachable = True
        self.moved = Bell()
        self.begin(epoch)

    @property
    def head(self) -> int:
        return len(self.log)

    @property
    def position(self) -> Position:
        return Position(epoch=self.epoch, sequence=self.head)

    def begin(self, epoch: int) -> None:
        """Start a new life, without blocks."""
        self.epoch, self.oldest = epoch, 0
        self.log: list[WatchEventsResponse] = []
        self.blocks.clear()
        self._script = Script(self.node_id, epoch)
        self.moved.ring()

    def store(self, *numbers: int) -> None:
        self.blocks.update(numbers)
        self._add(self._script.batch(stored(*numbers)))

    def remove(self, *numbers: int) -> None:
        self.blocks.difference_update(numbers)
        self._add(self._script.batch(removed(*numbers)))

    def clear(self) -> None:
        self.blocks.clear()
        self._add(self._script.batch(cleared()))

    def introduction(self, at: int) -> list[WatchEventsResponse]:
        script = Script(self.node_id, self.epoch, at)
        return [script.tier("cpu0"), script.namespace()]

    def snapshot(self, reason: ResetReason.ValueType) -> list[WatchEventsResponse]:
        """Return what a follower is told that starts over now."""
        script = Script(self.node_id, self.epoch, self.head)
        page = [script.page(stored(*self.blocks))] if self.blocks else []
        synced = script.synced(len(self.blocks))
        return [script.reset(reason), *self.introduction(self.head), *page, synced]

    def start(self, position: Position | None) -> list[WatchEventsResponse]:
        """Return what a follower is told before the live events."""
        if position is None:
            return self.snapshot(ResetReason.RESET_REASON_NO_POSITION)
        if position.epoch != self.epoch:
            return self.snapshot(ResetReason.RESET_REASON_EPOCH_CHANGED)
        if not self.oldest <= position.sequence <= self.head:
            return self.snapshot(ResetReason.RESET_REASON_COMPACTED)
        at = position.sequence
        return [*self.introduction(at), Script(self.node_id, self.epoch, at).synced(self._then(at))]

    def state(self, state: SourceState.ValueType, at: int) -> WatchEventsResponse:
        return source_state(self.node_id, (self.epoch, at), state, "as the test has it")

    def _add(self, message: WatchEventsResponse) -> None:
        self.log.append(message)
        self.moved.ring()

    def _then(self, at: int) -> int:
        held: set[int] = set()
        for message in self.log[:at]:
            for batch in message.batches.batches:
                held = set() if batch.cleared else held
                for gone in batch.removed:
                    held -= _numbers(gone.block_hashes)
                for new in batch.stored:
                    held |= _numbers(new.block_hashes)
        return len(held)


class OriginStream:
    """A stream of an origin, which goes on as the origin does, until it is broken."""

    def __init__(self, origin: Origin, position: Position | None) -> None:
        self.broken = self.closed = False
        self._origin = origin
        self._epoch = origin.epoch
        self._waiting = origin.start(position)
        self._next = self._waiting[-1].through

    def __aiter__(self) -> AsyncIterator[WatchEventsResponse]:
        return self

    async def __anext__(self) -> WatchEventsResponse:
        while not self._waiting:
            origin = self._origin
            if self.broken or not origin.reachable or origin.epoch != self._epoch:
                raise unavailable("the stream broke", Reason.INTERNAL)
            self._waiting += origin.log[self._next :]
            self._next = origin.head
            if not self._waiting:
                await origin.moved.wait(1.0)
        await asyncio.sleep(0)
        return self._waiting.pop(0)

    def close(self) -> None:
        self.closed = True


class Origins:
    """Where streams of origins come from; two of one node at most."""

    def __init__(self, *origins: Origin) -> None:
        self.origins = {origin.node_id: origin for origin in origins}
        self.streams: list[OriginStream] = []
        self._places = {node_id: asyncio.Semaphore(2) for node_id in self.origins}

    @property
    def open_streams(self) -> int:
        return sum(not stream.closed for stream in self.streams)

    def places(self, node_id: str) -> asyncio.Semaphore:
        return self._places[node_id]

    def open(self, node_id: str, position: Position | None, wishes: Wishes) -> OriginStream:
        origin = self.origins[node_id]
        origin.opened.append(position)
        if not origin.reachable:
            raise unavailable("nobody answers", Reason.INTERNAL)
        self.streams.append(OriginStream(origin, position))
        return self.streams[-1]

    def break_all(self) -> None:
        for stream in self.streams:
            stream.broken = True


def _numbers(hashes: bytes) -> set[int]:
    return {int.from_bytes(hashes[i : i + 8], "big") for i in range(0, len(hashes), 8)}
