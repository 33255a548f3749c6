"""One source of a proxy."""

import asyncio
from collections.abc import Callable, Sequence

from kvtier.client.errors import KvtierError
from kvtier.client.index import BlockIndex
from kvtier.client.merge import Delivery, SourceBuffer
from kvtier.client.node import NodeClient
from kvtier.client.stream import source_state
from kvtier.client.watch import Watch
from kvtier.v1.event_service_pb2 import SourceState, State, WatchEventsResponse

# What a parsed message costs besides what it carries, in bytes.
_MESSAGE_OVERHEAD = 512

_IN_TOUCH = frozenset({SourceState.SOURCE_STATE_SNAPSHOT, SourceState.SOURCE_STATE_LIVE})


class Feed:
    """Reads a node's watch into a bounded buffer, and into the mirror of what the node holds.

    A message that the mirror cannot apply makes it worth nothing, so the watch starts over then.

    When the buffer is full the feed waits for its reader, and after a while gives up: then the
    buffer stays empty, the mirror goes on, and a reader who comes back gets the node's state, a
    reset and a snapshot.

    Args:
        client: The node's client.
        watch: The node's watch.
        buffer: Where messages wait for the proxy's reader.
        mirror: What to keep up to date; None for none.
        patience: Seconds to wait for the reader of a full buffer, since it took from it last.
        arrived: Set when a message was put into the buffer.
        taken: Set when the reader took something, of whatever source.
        owners: Which feed speaks for which node id, shared by the feeds of a proxy.

    Attributes:
        state: The state of the source.
        node_id: The node's id, once it is known.
    """

    def __init__(
        self,
        client: NodeClient,
        watch: Watch,
        buffer: SourceBuffer,
        *,
        mirror: BlockIndex | None,
        patience: float,
        arrived: asyncio.Event,
        taken: asyncio.Event,
        owners: "dict[str, Feed]",
    ) -> None:
        self.client = client
        self.buffer = buffer
        self.state = SourceState.SOURCE_STATE_CONNECTING
        self.node_id = ""
        self.reason = "connecting"
        self._watch = watch
        self._mirror = mirror
        self._patience = patience
        self._arrived = arrived
        self._owners = owners
        self._taken = taken
        self._place = (0, 0)
        self._needs_reset = False
        self._refused = False
        self._said_unknown: tuple[SourceState.ValueType, str] | None = None

    async def run(self) -> None:
        """Read until the watch ends; whatever is raised is told as the state DOWN."""
        try:
            async for message in self._watch:
                await self._take(message)
        except Exception as error:  # noqa: BLE001 - a feed that ends unseen leaves its mirror trusted
            why = (
                str(error) if isinstance(error, KvtierError) else f"{type(error).__name__}: {error}"
            )
            endpoint = self.client.endpoint
            told = why if endpoint in why else f"{endpoint}: {why}"
            self._put_state(SourceState.SOURCE_STATE_DOWN, f"{told}; it is not followed any more")
            await self.close()

    async def close(self) -> None:
        """End the watch."""
        await self._watch.close()

    def attend(self) -> None:
        """Note that somebody reads: a buffer that was abandoned starts over."""
        if self.buffer.abandoned:
            self.buffer.abandoned = False
            if self.state in _IN_TOUCH:
                self.state, self.reason = SourceState.SOURCE_STATE_CONNECTING, "starting over"
            self._put_state(self.state, self.reason)
            self._start_over()

    def _start_over(self) -> None:
        """Ask for a snapshot; what is still to come of the stream before it is left out."""
        self._needs_reset = True
        self._watch.rewind()

    async def _take(self, message: WatchEventsResponse) -> None:
        kind = message.WhichOneof("kind")
        of_source = kind == "state" and not message.state.tier
        if of_source and message.node_id != self.node_id:
            # A position to resume from may be of a node behind another endpoint: which node is
            # behind this one is known when it says something itself.
            await self._take_unknown(message.state)
            return
        if not self._speaks_for(message.node_id):
            return
        if of_source:
            self.state, self.reason = message.state.source, message.state.reason
        elif kind != "state":
            self._place = (message.epoch, message.through)
        flawed = self._mirrors_badly(message)
        if kind == "reset":
            self._needs_reset = False
        # The old stream's last messages would not follow on what was dropped.
        if not self._needs_reset or kind in {"state", "namespace"}:
            await self._put(message)
        if flawed:
            self._watch.rewind("its events do not add up to what it says that it holds")

    async def _take_unknown(self, state: State) -> None:
        """Take what the watch says of whatever node is behind the endpoint, once."""
        said = state.source, state.reason
        if not self.node_id and not self._refused and said != self._said_unknown:
            self._said_unknown = self.state, self.reason = said
            await self._put(source_state("", (0, 0), *said))

    def _mirrors_badly(self, message: WatchEventsResponse) -> bool:
        """Mirror a message, and tell whether some of it could not be applied."""
        if self._mirror is None:
            return False
        before = self._mirror.bad_events
        self._mirror.apply(message)
        return self._mirror.bad_events > before

    async def _put(self, message: WatchEventsResponse) -> None:
        if self.buffer.full:
            await self._wait_for_room()
        if not self.buffer.abandoned:
            self._deliver(message)

    async def _wait_for_room(self) -> None:
        """Return when there is room, or give the buffer up when nobody takes from it."""
        while self.buffer.full:
            takes = self.buffer.takes
            try:
                async with asyncio.timeout(self._patience):
                    while self.buffer.takes == takes:
                        self._taken.clear()
                        await self._taken.wait()
            except TimeoutError:
                self.buffer.abandon()

    def _put_state(self, state: SourceState.ValueType, reason: str) -> None:
        self.state, self.reason = state, reason
        message = source_state(self.node_id, self._place, state, reason)
        if self._mirror is not None:
            self._mirror.apply(message)
        if not self.buffer.abandoned:
            self._deliver(message)

    def _deliver(self, message: WatchEventsResponse) -> None:
        position = self._watch.position_of(message.node_id)
        self.buffer.put(Delivery(message, position, message.ByteSize() + _MESSAGE_OVERHEAD))
        self._arrived.set()

    def _speaks_for(self, node_id: str) -> bool:
        """Tell whether a message of a node counts, and take a node that nobody speaks for.

        Of two that say the same id the first one counts, until it is down: a node may move.
        """
        if node_id in {"", self.node_id}:
            return True
        owner = self._owners.get(node_id)
        if owner is not None and owner.state != SourceState.SOURCE_STATE_DOWN:
            if not self._refused:
                self._refused = True
                self._put_state(
                    SourceState.SOURCE_STATE_DOWN,
                    f"{self.client.endpoint} says that it is node {node_id}, and so does "
                    f"{owner.client.endpoint}; give each node an id of its own",
                )
            return False
        if owner is not None:
            owner.node_id = ""
        self._speak_for(node_id)
        if self._refused:
            # What the node said meanwhile went to nobody.
            self._refused = False
            self._start_over()
            return False
        return True

    def _speak_for(self, node_id: str) -> None:
        if self.node_id:
            del self._owners[self.node_id]
        if self._mirror is not None:
            if self.node_id:
                self._mirror.forget(self.node_id)
            self._mirror.welcome(node_id)
        self._owners[node_id] = self
        self.node_id = node_id


def follow(
    clients: Sequence[NodeClient],
    watch: Callable[[NodeClient], Watch],
    mirrors: Sequence[BlockIndex | None],
    *,
    limit: int,
    patience: float,
    arrived: asyncio.Event,
    taken: asyncio.Event,
) -> list[Feed]:
    """Return a feed for each node, of which no two speak for the same node.

    Args:
        clients: The nodes' clients.
        watch: Makes the watch of a node.
        mirrors: What each feed keeps up to date.
        limit: Bytes at which a feed's buffer is full.
        patience: Seconds to wait for the reader of a full buffer.
        arrived: Set when a message was put into a buffer.
        taken: Set when the reader took something.
    """
    owners: dict[str, Feed] = {}
    return [
        Feed(
            client,
            watch(client),
            SourceBuffer(limit),
            mirror=mirror,
            patience=patience,
            arrived=arrived,
            taken=taken,
            owners=owners,
        )
        for client, mirror in zip(clients, mirrors, strict=True)
    ]
