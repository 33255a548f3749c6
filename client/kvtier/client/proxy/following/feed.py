"""One endpoint that a proxy follows: a node, or another proxy with several."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from kvtier.client.errors import KvtierError
from kvtier.client.node import NodeClient
from kvtier.client.proxy.following.merge import Delivery, SourceBuffer
from kvtier.client.proxy.following.owners import Owners
from kvtier.client.stream import source_state
from kvtier.client.watch import Watch
from kvtier.v1.event_service_pb2 import SourceState, State, WatchEventsResponse

# What a parsed message costs besides what it carries, in bytes.
_MESSAGE_OVERHEAD = 512

IN_TOUCH = frozenset({SourceState.SOURCE_STATE_SNAPSHOT, SourceState.SOURCE_STATE_LIVE})


@dataclass(slots=True)
class Standing:
    """How a node, or an endpoint, stands.

    Attributes:
        state: The state.
        reason: Why, in a few words.
        place: The epoch and the last sequence that its messages accounted for.
    """

    state: SourceState.ValueType = SourceState.SOURCE_STATE_CONNECTING
    reason: str = "connecting"
    place: tuple[int, int] = (0, 0)


class Feed:
    """Reads an endpoint's watch into a bounded buffer, and into the index of what nodes hold.

    A message that the index cannot apply makes it worth nothing, so the watch starts over then.

    When the buffer is full the feed waits for its reader, and after a while gives up: then the
    buffer stays empty, the index goes on, and a reader who comes back gets each node's state, a
    reset and a snapshot.

    At an endpoint there is one node, until the stream says that it is a proxy's: then there are
    those that it lists. A node that is there no more is told to be REMOVED.

    Args:
        client: The endpoint's client.
        watch: Its watch.
        buffer: Where messages wait for the proxy's reader.
        owners: Which feed speaks for which node.
        first: It is of the primary, which speaks for its nodes whoever else does.
        patience: Seconds to wait for the reader of a full buffer, since it took from it last.
        arrived: Set when a message was put into the buffer.
        taken: Set when the reader took something, of whatever source.

    Attributes:
        nodes: How each node behind the endpoint stands, in the order in which they were heard of.
        unknown: How the endpoint stands while no node is known.
    """

    def __init__(
        self,
        client: NodeClient,
        watch: Watch,
        buffer: SourceBuffer,
        *,
        owners: Owners,
        first: bool = False,
        patience: float,
        arrived: asyncio.Event,
        taken: asyncio.Event,
    ) -> None:
        self.client = client
        self.buffer = buffer
        self.nodes: dict[str, Standing] = {}
        self.unknown = Standing()
        self._watch = watch
        self._owners = owners
        self._first = first
        self._patience = patience
        self._arrived = arrived
        self._taken = taken
        # Nodes whose next message has to be a reset.
        self._starting_over: set[str] = set()
        self._refused: set[str] = set()
        # Nodes that another feed took over.
        self._lost: set[str] = set()
        self._said_unknown: tuple[SourceState.ValueType, str] | None = None
        self._is_proxy = False

    async def run(self) -> None:
        """Read until the watch ends; whatever is raised is told as the state DOWN."""
        try:
            async for message in self._watch:
                await self._take(message)
        except Exception as error:  # noqa: BLE001 - a feed that ends unseen leaves its index trusted
            why = (
                str(error) if isinstance(error, KvtierError) else f"{type(error).__name__}: {error}"
            )
            endpoint = self.client.endpoint
            told = why if endpoint in why else f"{endpoint}: {why}"
            self._put_states(SourceState.SOURCE_STATE_DOWN, f"{told}; it is not followed any more")
            await self.close()

    async def close(self) -> None:
        """End the watch."""
        await self._watch.close()

    def resign(self) -> None:
        """Speak for nobody any more: every node is told to be REMOVED, and forgotten."""
        # Who reads on gets these words, and nothing after them.
        self.buffer.abandon()
        for node_id in list(self.nodes):
            self._leave(node_id)

    def attend(self) -> None:
        """Note that somebody reads: a buffer that was abandoned starts over."""
        if self.buffer.abandoned:
            self.buffer.abandoned = False
            for node_id, standing in self.standings():
                if standing.state in IN_TOUCH:
                    standing.state = SourceState.SOURCE_STATE_CONNECTING
                    standing.reason = "starting over"
                self._put_state(node_id, standing)
            self._start_over()

    def standings(self) -> list[tuple[str, Standing]]:
        """Return how each node stands, and without one the endpoint, by the empty id."""
        return list(self.nodes.items()) or [("", self.unknown)]

    def _start_over(self) -> None:
        """Ask for snapshots; what is still to come of the stream before them is left out."""
        self._starting_over = set(self.nodes)
        self._watch.rewind()

    async def _take(self, message: WatchEventsResponse) -> None:
        kind = message.WhichOneof("kind")
        if kind == "sources":
            self._carry(message.sources.node_ids)
            return
        of_source = kind == "state" and not message.state.tier
        if of_source and message.node_id not in self.nodes:
            # A position to resume from may be of a node behind another endpoint: which node is
            # behind this one is known when it says something itself.
            await self._take_unknown(message.state)
            return
        if not self._speaks_for(message.node_id):
            return
        self._note(message, kind, of_source=of_source)
        flawed = not self._owners.apply(message)
        if kind == "reset":
            self._starting_over.discard(message.node_id)
        # The old stream's last messages would not follow on what was dropped.
        if message.node_id not in self._starting_over or kind in {"state", "namespace"}:
            await self._put(message)
        if flawed:
            self._watch.rewind("its events do not add up to what it says that it holds")

    def _note(self, message: WatchEventsResponse, kind: str | None, *, of_source: bool) -> None:
        standing = self.nodes[message.node_id]
        if of_source:
            standing.state, standing.reason = message.state.source, message.state.reason
        elif kind != "state":
            standing.place = (message.epoch, message.through)

    async def _take_unknown(self, state: State) -> None:
        """Take what the watch says of whatever node is behind the endpoint, once."""
        said = state.source, state.reason
        if not self.nodes and not self._refused and said != self._said_unknown:
            self._said_unknown = said
            self.unknown.state, self.unknown.reason = said
            await self._put(source_state("", (0, 0), *said))

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

    def _put_states(self, state: SourceState.ValueType, reason: str) -> None:
        for node_id, standing in self.standings():
            standing.state, standing.reason = state, reason
            self._put_state(node_id, standing)

    def _put_state(self, node_id: str, standing: Standing) -> None:
        message = source_state(node_id, standing.place, standing.state, standing.reason)
        self._owners.apply(message)
        if not self.buffer.abandoned:
            self._deliver(message)

    def _deliver(self, message: WatchEventsResponse) -> None:
        position = self._watch.position_of(message.node_id)
        self.buffer.put(Delivery(message, position, message.ByteSize() + _MESSAGE_OVERHEAD))
        self._arrived.set()

    def _speaks_for(self, node_id: str) -> bool:
        """Tell whether a message of a node counts, and take a node that nobody speaks for.

        Of two that say the same id the first one counts, until it is down: a node may move. The
        primary's counts in any case.
        """
        if not node_id or node_id in self.nodes:
            return bool(node_id)
        owner = self._owners.get(node_id)
        if owner is not None:
            down = owner.nodes[node_id].state == SourceState.SOURCE_STATE_DOWN
            if not down and not self._first:
                self._refuse(node_id, owner.client.endpoint)
                return False
            owner._lose(node_id)  # noqa: SLF001 - another one of these
        moved = self._speak_for(node_id)
        resumes = moved and self._watch.position_of(node_id) is not None
        if node_id in self._refused | self._lost or resumes:
            # What the node said meanwhile went to nobody, or to another feed.
            self._refused.discard(node_id)
            self._lost.discard(node_id)
            self._start_over()
            return False
        return True

    def _lose(self, node_id: str) -> None:
        """Speak for a node no more, since another feed does, from its next reset on."""
        self.unknown = self.nodes.pop(node_id)
        self._lost.add(node_id)
        self.buffer.drop(node_id)

    def _refuse(self, node_id: str, owner: str) -> None:
        if node_id in self._refused:
            return
        self._refused.add(node_id)
        reason = (
            f"{self.client.endpoint} says that it is node {node_id}, and so does {owner}; give "
            "each node an id of its own"
        )
        if self._is_proxy:
            # Its other nodes are as they were.
            refused = Standing(SourceState.SOURCE_STATE_DOWN, reason)
            self._put_state("", refused)
        else:
            self._put_states(SourceState.SOURCE_STATE_DOWN, reason)

    def _speak_for(self, node_id: str) -> bool:
        """Speak for a node, and tell whether somebody did before."""
        if not self._is_proxy:
            for before in list(self.nodes):
                self._leave(before)
        self.nodes[node_id] = Standing()
        return self._owners.take(node_id, self)

    def _carry(self, node_ids: Sequence[str]) -> None:
        """Note that the endpoint is a proxy, and of which nodes it tells."""
        self._is_proxy = True
        for node_id in self.nodes.keys() - set(node_ids):
            self._leave(node_id)
        for node_id in node_ids:
            self._speaks_for(node_id)

    def _leave(self, node_id: str) -> None:
        standing = self.nodes.pop(node_id)
        endpoint = self.client.endpoint
        self._owners.leave(node_id)
        standing.state = SourceState.SOURCE_STATE_REMOVED
        standing.reason = f"{endpoint} does not tell of it any more"
        if self.buffer.abandoned:
            self.buffer.drop(node_id)
        self._deliver(source_state(node_id, standing.place, standing.state, standing.reason))
