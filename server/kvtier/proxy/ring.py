"""The newest batches of one life of a node's log, as the node numbered them."""

import asyncio
from collections.abc import Mapping, Sequence

from kvtier.proxy.parts import parts_of
from kvtier.server.events.feed import Feeds
from kvtier.server.events.log import EventLog
from kvtier.server.events.messages import Messages
from kvtier.server.events.source import News, TierInfo
from kvtier.v1.block_pb2 import Position
from kvtier.v1.event_service_pb2 import State, WatchEventsResponse
from kvtier.v1.namespace_pb2 import Namespace
from kvtier.wire.namespaces import fingerprint


class Ring:
    """What a proxy keeps of a node's log; for followers it is a `LogSource` like the node's own.

    It keeps no tables. How many blocks there were at a position is known from where `count` was
    told it on.

    Args:
        node_id: The node's id.
        begin: The epoch, and the sequence before the first batch.
        max_batches: Most batches held.
        max_bytes: Most encoded bytes held.
        message_bytes: Size at which a message to followers is full.

    Attributes:
        node_id: As given.
        log: The batches.
        messages: Encodes messages about them.
        feeds: Read the batches for followers.
        draining: Never set: a proxy's followers are sent off by the proxy.
        state_changes: How often the states of the node's tiers have changed.
        states_at: The log's head when they changed last.
        ready: The node has told all that a follower must know before the first batch.
        over: Nothing is added any more.
        counted_from: The lowest position at which the number of blocks is known; None for none.
        lag: Batches of the node's log that were missing here when its last heartbeat came.
    """

    def __init__(
        self,
        node_id: str,
        begin: Position,
        *,
        max_batches: int,
        max_bytes: int,
        message_bytes: int,
    ) -> None:
        self.node_id = node_id
        self.log = EventLog(
            epoch=begin.epoch, head=begin.sequence, max_batches=max_batches, max_bytes=max_bytes
        )
        self.messages = Messages(node_id, begin.epoch)
        self.feeds = Feeds(self.log, self.messages, message_bytes)
        self.draining = asyncio.Event()
        self.state_changes = 0
        self.states_at = begin.sequence
        self.ready = self.over = False
        self.counted_from: int | None = None
        self.lag = 0
        self._tiers: dict[str, TierInfo] = {}
        self._places: dict[str, int] = {}
        self._described: list[tuple[bytes, bytes]] = []
        self._widths: dict[bytes, int] = {}

    @property
    def head(self) -> Position:
        """The position of the newest batch."""
        return Position(epoch=self.log.epoch, sequence=self.log.head)

    @property
    def tiers(self) -> Mapping[str, TierInfo]:
        """The node's tiers, by name."""
        return self._tiers

    def take(self, message: WatchEventsResponse, kind: str | None) -> None:
        """Take in a message of the node's stream, which follows on the one before.

        Raises:
            ValueError: When something is missing before it, or it makes no sense.
        """
        if kind == "state":
            self._note(message.state)
            return
        if kind == "namespace":
            self._describe(message.namespace)
            return
        for batch in message.batches.batches:
            if batch.sequence != self.log.head + 1:
                raise ValueError(f"batch {batch.sequence} follows batch {self.log.head}")
            self.log.append(parts_of(batch, self._places, self._widths))
        if message.through != self.log.head:
            raise ValueError(f"batches {self.log.head + 1} to {message.through} are missing")
        if kind == "progress":
            self.lag = max(0, message.progress.head - self.log.head)

    def count(self, blocks: Mapping[tuple[str, bytes], int]) -> None:
        """Count blocks from the head on, given how many there are of each tier and namespace."""
        self.counted_from = self.log.head
        self.log.counts.begin(
            {
                (tier.index, tier.medium, namespace): number
                for (name, namespace), number in blocks.items()
                if (tier := self._tiers.get(name)) is not None
            }
        )

    def end(self) -> None:
        """Send those who follow elsewhere, once they have everything."""
        self.over = True
        self.log.wake()

    def holds(self, position: Position) -> bool:
        """Tell whether a follower can go on from a position."""
        in_it = self.log.oldest <= position.sequence <= self.log.head
        return self.ready and not self.over and position.epoch == self.log.epoch and in_it

    def tier_infos(self) -> Sequence[TierInfo]:
        """Return the tiers, in the node's order."""
        return tuple(self._tiers.values())

    def namespaces(self, number: int, position: int) -> News:
        """Return the namespaces that were described since, as `LogSource` says."""
        del position
        return News(len(self._described), self._described[number:])

    def ready_blocks(self, tier: int, namespaces: frozenset[bytes] | None) -> int:
        """Return the number of readable blocks of a tier, where it is known."""
        return self.log.counts.total(tier, namespaces)

    def _note(self, state: State) -> None:
        place = self._places.setdefault(state.tier, len(self._places))
        told = TierInfo(
            place, state.tier, state.medium, state.tier_state, state.reason, state.locality
        )
        if self._tiers.get(state.tier) != told:
            self._tiers[state.tier] = told
            self.state_changes += 1
            self.states_at = self.log.head
            self.log.wake()

    def _describe(self, namespace: Namespace) -> None:
        if not namespace.hash_width:
            raise ValueError("a namespace has hashes of no bytes")
        name = fingerprint(namespace)
        if name not in self._widths:
            self._widths[name] = namespace.hash_width
            self._described.append((name, namespace.SerializeToString()))
            self.log.wake()
