"""The relays of all nodes behind a proxy."""

from collections.abc import AsyncIterator
from typing import NamedTuple

import structlog

from kvtier.client.proxy.following.members import Members
from kvtier.proxy.relay import MakeRing, Relay
from kvtier.proxy.told import Told
from kvtier.server.events.bell import Bell
from kvtier.v1.event_service_pb2 import SourceState, WatchEventsResponse

_log = structlog.get_logger(__name__)


class Carried(NamedTuple):
    """A node that followers are told of.

    Attributes:
        relay: What is known of it.
        primary: It is behind the primary's address.
    """

    relay: Relay
    primary: bool


class Relays:
    """Hands the messages of a proxy's merged stream to the relay of each node.

    Args:
        members: Whom the proxy follows.
        make_ring: Makes a node's ring.

    Attributes:
        news: Rings when a node joins, leaves, changes its state, or can be followed from its ring.
        version: How often it rang.
        told: What followers of all nodes were told.
    """

    def __init__(self, members: Members, make_ring: MakeRing) -> None:
        self.news = Bell()
        self.version = 0
        self.told = Told()
        self._members = members
        self._make_ring = make_ring
        self._relays: dict[str, Relay] = {}

    @property
    def complete(self) -> bool:
        """Whether a node was heard of behind every address."""
        return all(member.node_ids for member in self._members)

    def carried(self) -> list[Carried]:
        """Return the nodes that were heard of, the primary's first, in the order of addresses."""
        return [
            Carried(relay, member is self._members.primary)
            for member in self._members
            for node_id in member.node_ids
            if (relay := self._relays.get(node_id)) is not None
        ]

    def node_ids(self) -> list[str]:
        """Return the ids of the nodes behind all addresses, also of those that said nothing yet."""
        return [node_id for member in self._members for node_id in member.node_ids]

    def get(self, node_id: str) -> Relay | None:
        """Return the relay of a node that was heard of."""
        return self._relays.get(node_id)

    async def follow(self, messages: AsyncIterator[WatchEventsResponse]) -> None:
        """Take in messages until there are no more."""
        async for message in messages:
            try:
                self.take(message)
            except Exception:  # noqa: BLE001 - the other nodes go on, and followers ask this one
                _log.exception("a message could not be taken in", node_id=message.node_id)
                self._relays[message.node_id].close()

    def take(self, message: WatchEventsResponse) -> None:
        """Take in one message."""
        if not message.node_id:
            # Of an address of which it is not known yet what is behind it.
            self._ring()
            return
        relay = self._relays.get(message.node_id)
        if relay is None:
            index, make_ring = self._members.index, self._make_ring
            relay = Relay(message.node_id, index, make_ring, self.news, self.told)
            self._relays[message.node_id] = relay
            self._ring()
        before = relay.state
        if relay.take(message):
            self._ring()
        if relay.state != before:
            self._tell(relay)
        if relay.state == SourceState.SOURCE_STATE_REMOVED:
            relay.close()
            del self._relays[message.node_id]

    def _ring(self) -> None:
        self.version += 1
        self.news.ring()

    def _tell(self, relay: Relay) -> None:
        known = relay.state in SourceState.values()
        name = SourceState.Name(relay.state) if known else str(relay.state)
        state = name.removeprefix("SOURCE_STATE_").lower()
        _log.info("source", node_id=relay.node_id, state=state, reason=relay.reason)
