"""Streams from the nodes themselves, for followers whose position a ring does not hold."""

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol
from weakref import WeakValueDictionary

from kvtier.client.proxy.following.members import Members
from kvtier.client.stream import Listener
from kvtier.proxy.relays import Relays
from kvtier.proxy.wishes import Wishes
from kvtier.v1.block_pb2 import Position
from kvtier.v1.event_service_pb2 import NodePosition, WatchEventsResponse
from kvtier.wire.errors import Reason, unavailable


class NodeStream(Protocol):
    """The messages of one call, until it breaks."""

    def __aiter__(self) -> AsyncIterator[WatchEventsResponse]:
        """Return what brings the messages."""
        ...

    def close(self) -> None:
        """End the call."""
        ...


class Source(Protocol):
    """Where streams of nodes come from."""

    def places(self, node_id: str) -> asyncio.Semaphore:
        """Return the places for streams of a node at one time."""
        ...

    def open(self, node_id: str, position: Position | None, wishes: Wishes) -> NodeStream:
        """Follow a node for one follower.

        Args:
            node_id: The node.
            position: Where the follower goes on; None to start over.
            wishes: What it asked for.

        Raises:
            KvtierError: UNAVAILABLE when the node is not behind any address.
        """
        ...


class Upstream:
    """Opens streams at the addresses of the members.

    At the address of a proxy, which has more nodes than the one that is wanted, the others go on
    from where their rings are, so that they send no snapshots that nobody reads.

    Args:
        relays: The relays of all nodes.
        members: Whom the proxy follows.
        limit: Most streams of one node at one time.
        heartbeat_interval: The longest that a source is silent, in seconds.
    """

    def __init__(
        self, relays: Relays, members: Members, *, limit: int, heartbeat_interval: float = 1.0
    ) -> None:
        self._relays = relays
        self._members = members
        self._limit = limit
        self._heartbeat_interval = heartbeat_interval
        self._places: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def places(self, node_id: str) -> asyncio.Semaphore:
        """Return the places for streams of a node at one time."""
        places = self._places.get(node_id)
        if places is None:
            places = self._places[node_id] = asyncio.Semaphore(self._limit)
        return places

    def open(self, node_id: str, position: Position | None, wishes: Wishes) -> NodeStream:
        """Follow a node for one follower, as `Source` says."""
        member = self._members.find(node_id)
        if member is None:
            raise unavailable(
                f"node {node_id} is not behind any address now", Reason.PEER_UNREACHABLE
            )
        positions = [
            NodePosition(node_id=other, position=relay.ring.head)
            for other in member.node_ids
            if other != node_id and (relay := self._relays.get(other)) and relay.ring
        ]
        if position is not None:
            positions.append(NodePosition(node_id=node_id, position=position))
        relay, request = self._relays.get(node_id), wishes.request
        stream = member.client.watch_events(
            positions=positions,
            tiers=wishes.tiers_at(relay.ring if relay is not None else None),
            media=request.media,
            namespaces=request.namespaces,
            view=request.view,
        )
        return Listener(stream, self._heartbeat_interval, asyncio.sleep)
