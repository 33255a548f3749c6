"""A proxy's event service over origins: the test says how far the proxy has heard of each."""

import asyncio
from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from kvtier.client import BlockIndex
from kvtier.proxy.relay import Relay
from kvtier.proxy.relays import Relays
from kvtier.proxy.ring import Ring
from kvtier.proxy.watching import EventService, Rules
from kvtier.server.events.pace import Pace
from kvtier.v1.event_service_pb2 import (
    ResetReason,
    SourceState,
    WatchEventsRequest,
    WatchEventsResponse,
)
from kvtier.wire.errors import KvtierError
from tests.contract.folding import Fold
from tests.contract.proxies import positions
from tests.unit.client.messages import hash_of
from tests.unit.events.reader import Call

from .origins import LIVE, Origin, Origins

if TYPE_CHECKING:
    from kvtier.client.proxy.following.members import Members


class FakeMember:
    """An address behind which nodes were heard of, or none."""

    def __init__(self, *node_ids: str) -> None:
        self.node_ids = list(node_ids)


class FakeMembers:
    """The members of a proxy, the primary first."""

    def __init__(self, *members: FakeMember) -> None:
        self.members = list(members)
        self.index = BlockIndex()

    @property
    def primary(self) -> FakeMember:
        return self.members[0]

    def __iter__(self) -> Iterator[FakeMember]:
        return iter(self.members)


class Upstream:
    """The proxy's own stream of one origin: what was read is in the index, what was heard told on.

    Attributes:
        state: The state of the source.
    """

    def __init__(self, world: "World", origin: Origin) -> None:
        self.state = SourceState.SOURCE_STATE_UNSPECIFIED
        self._world = world
        self._origin = origin
        self._epoch = self._read = 0
        self._unheard: deque[WatchEventsResponse] = deque()

    def start_over(self) -> None:
        """Read a snapshot, and hear everything."""
        self.read_snapshot()
        self.stand(LIVE)

    def read_snapshot(self) -> None:
        """Read a snapshot."""
        for message in self._origin.snapshot(ResetReason.RESET_REASON_NO_POSITION):
            self._take(message)
        self._epoch, self._read = self._origin.epoch, self._origin.head

    def read(self) -> None:
        """Read what the node has sent; of another life, a snapshot."""
        if self._epoch != self._origin.epoch:
            self.read_snapshot()
        for message in self._origin.log[self._read :]:
            self._take(message)
            self._read += 1

    def hear(self, most: int = 1000) -> None:
        """Read, and hear some of what was read."""
        self.read()
        for _ in range(min(most, len(self._unheard))):
            self._world.relays.take(self._unheard.popleft())

    def stand(self, state: SourceState.ValueType) -> None:
        """Hear everything that was read, and then that the state of the source has changed."""
        if state != self.state:
            self.state = state
            self._take(self._origin.state(state, self._read))
        while self._unheard:
            self._world.relays.take(self._unheard.popleft())

    def _take(self, message: WatchEventsResponse) -> None:
        self._world.members.index.apply(message)
        self._unheard.append(message)


class World:
    """A proxy over origins, the first of which is the primary."""

    def __init__(
        self, *origins: Origin, max_batches: int = 64, quota: int = 4, **options: Any
    ) -> None:
        self.members = FakeMembers(*[FakeMember(origin.node_id) for origin in origins])
        ring = partial(Ring, max_batches=max_batches, max_bytes=1 << 20, message_bytes=1 << 16)
        self.relays = Relays(cast("Members", self.members), ring)
        self.source = Origins(*origins)
        pace = Pace(linger=0.0, stall_timeout=30.0, snapshot_stall_timeout=10.0)
        rules = Rules(max_followers=8, quota=quota, **options)
        self.service = EventService(self.relays, self.source, pace, rules)
        self.upstreams = {origin.node_id: Upstream(self, origin) for origin in origins}

    def relay(self, node_id: str) -> Relay:
        relay = self.relays.get(node_id)
        assert relay is not None
        return relay


class Reader:
    """One follower of a world's proxy.

    Attributes:
        messages: What came.
        folds: The view of each node.
        error: What the stream ended with.
    """

    def __init__(self, world: World, folds: dict[str, Fold] | None = None, **request: Any) -> None:
        self.messages: list[WatchEventsResponse] = []
        self.folds = {} if folds is None else folds
        self.error: KvtierError | None = None
        self._world = world
        self._request = request
        self._reading = asyncio.Event()
        self._reading.set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> "Reader":
        """Connect, from where the views are."""
        for fold in self.folds.values():
            fold.reopen()
        request = WatchEventsRequest(positions=positions(self.folds), **self._request)
        self._task = asyncio.create_task(self._watch(request))
        return self

    def stall(self) -> None:
        """Take no more messages."""
        self._reading.clear()

    def read_on(self) -> None:
        """Take messages again."""
        self._reading.set()

    async def leave(self) -> None:
        """Go away; raise what a message did wrong."""
        assert self._task is not None
        self._task.cancel()
        for failure in await asyncio.gather(self._task, return_exceptions=True):
            if isinstance(failure, Exception):
                raise failure

    def of(self, node_id: str) -> list[WatchEventsResponse]:
        return [message for message in self.messages if message.node_id == node_id]

    def kinds(self, node_id: str) -> list[str]:
        return [message.WhichOneof("kind") or "" for message in self.of(node_id)]

    def states(self, node_id: str) -> list[str]:
        """The states of a source that were told."""
        told = [message.state.source for message in self.of(node_id) if message.state.source]
        return [SourceState.Name(state).removeprefix("SOURCE_STATE_") for state in told]

    def sequences(self, node_id: str) -> list[int]:
        """The sequences of the batches that came, in their order."""
        batches = [batch for message in self.of(node_id) for batch in message.batches.batches]
        return [batch.sequence for batch in batches]

    def agrees(self, origin: Origin) -> bool:
        """Tell whether the view of an origin is what it holds, at its head."""
        fold = self.folds.get(origin.node_id)
        if fold is None or not fold.synced or fold.epoch != origin.epoch:
            return False
        held = {key.block_hash for key in fold.view}
        return fold.through == origin.head and held == set(map(hash_of, origin.blocks))

    async def _watch(self, request: WatchEventsRequest) -> None:
        call = Call(self._take)
        try:
            await self._world.service.watch_events(request, call)
        except KvtierError as error:
            self.error = error
        finally:
            call.end()

    async def _take(self, data: bytes) -> None:
        await self._reading.wait()
        message = WatchEventsResponse.FromString(data)
        self.messages.append(message)
        if not message.HasField("sources"):
            self.folds.setdefault(message.node_id, Fold()).apply(message)
