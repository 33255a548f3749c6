"""Whom a proxy follows: the primary and the secondaries, which come and go."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from kvtier.client.arguments import bad_argument
from kvtier.client.index import BlockIndex
from kvtier.client.node import NodeClient
from kvtier.client.proxy.following.feed import IN_TOUCH, Feed, Standing
from kvtier.client.proxy.following.merge import Merge, SourceBuffer
from kvtier.client.proxy.following.owners import Owners
from kvtier.client.source import Quality
from kvtier.client.watch import Watch
from kvtier.v1.event_service_pb2 import SourceState, WatchEventsResponse
from kvtier.wire.errors import quote

_DOWN = SourceState.SOURCE_STATE_DOWN


class Following(NamedTuple):
    """How endpoints are followed.

    Attributes:
        watch: Makes the watch of a client whose messages go to the reader.
        mirror: Makes the watch that keeps the index up to date; None when the first does, too.
        limit: Bytes at which a buffer is full.
        patience: Seconds to wait for the reader of a full buffer.
        arrived: Set when a message was put into a buffer.
        taken: Set when the reader took something.
    """

    watch: Callable[[NodeClient], Watch]
    mirror: Callable[[NodeClient], Watch] | None
    limit: int
    patience: float
    arrived: asyncio.Event
    taken: asyncio.Event


class Manager(Protocol):
    """Who is told of what happens to the members."""

    def hear(self, message: WatchEventsResponse) -> None:
        """Take in a message of a node, once the index has it."""

    async def leave(self, member: "Member") -> None:
        """Take note that a secondary is removed."""


class Member:
    """An endpoint that a proxy follows: a node, or a proxy over several.

    Attributes:
        client: Its client.
        reader: Fills the buffer that the proxy's reader takes from.
        mirror: Keeps the index up to date; often the same.
    """

    def __init__(self, client: NodeClient, reader: Feed, mirror: Feed) -> None:
        self.client = client
        self.reader = reader
        self.mirror = mirror

    @property
    def endpoint(self) -> str:
        """Its address."""
        return self.client.endpoint

    @property
    def node_ids(self) -> list[str]:
        """The nodes behind it, as they were heard of; one at most unless it is a proxy."""
        return list(self.mirror.nodes)

    def state(self, node_id: str = "") -> SourceState.ValueType:
        """Return the state of a node behind it, of the first when none is named."""
        return self._standing(node_id).state

    def reason(self, node_id: str = "") -> str:
        """Return why a node behind it, the first when none is named, is in its state."""
        return self._standing(node_id).reason

    @property
    def down(self) -> bool:
        """Whether nothing behind it is in reach."""
        standings = self.mirror.nodes.values() or (self.mirror.unknown,)
        return all(each.state == _DOWN for each in standings)

    @property
    def feeds(self) -> set[Feed]:
        """What reads its streams."""
        return {self.reader, self.mirror}

    def _standing(self, node_id: str) -> Standing:
        nodes = self.mirror.nodes
        return nodes.get(node_id or next(iter(nodes), ""), self.mirror.unknown)


class Members:
    """The primary and the secondaries of a proxy, in order.

    Args:
        primary: The primary's client.
        secondaries: The secondaries' clients, in order.
        index: What all hold, as far as their events tell.
        merge: Takes from their buffers.
        following: How they are followed.

    Attributes:
        index: As given.
    """

    def __init__(
        self,
        primary: NodeClient,
        secondaries: Iterable[NodeClient],
        index: BlockIndex,
        merge: Merge,
        following: Following,
    ) -> None:
        self.index = index
        self._merge = merge
        self._following = following
        self._mirrors = Owners(index)
        self._readers = Owners(None) if following.mirror else self._mirrors
        self._tasks: dict[Member, list[asyncio.Task[None]]] = {}
        self._running = False
        self._manager: Manager | None = None
        self._members: list[Member] = []
        self._leaving: list[Member] = []
        for client in (primary, *secondaries):
            self._join(client)

    def __iter__(self) -> Iterator[Member]:
        return iter(tuple(self._members))

    @property
    def primary(self) -> Member:
        """The node that the proxy is local to."""
        return self._members[0]

    @property
    def secondaries(self) -> Sequence[Member]:
        """Those behind it, in order, as they are now."""
        return tuple(self._members[1:])

    def trusts(self, node_id: str) -> bool:
        """Tell whether a node is in touch, and what the index says of it is exact."""
        feed = self._mirrors.get(node_id)
        in_touch = feed is not None and feed.nodes[node_id].state in IN_TOUCH
        return in_touch and self.index.quality(node_id) is Quality.EXACT

    def find(self, node_id: str) -> Member | None:
        """Return the member behind which a node is."""
        return next((each for each in self._members if node_id in each.mirror.nodes), None)

    def tell(self, manager: Manager) -> None:
        """Tell somebody what the nodes say, and who leaves."""
        self._manager = manager
        self._mirrors.hear = manager.hear

    def start(self) -> None:
        """Begin to follow."""
        self._running = True
        for member in self._members:
            self._follow(member)

    async def add(self, client: NodeClient) -> Member:
        """Follow one more, as the last secondary.

        Raises:
            InvalidArgumentError: When its address is a member's already.
        """
        member = self._join(client)
        if self._running:
            self._follow(member)
        return member

    async def remove(self, member: Member) -> None:
        """Follow a secondary no more: what it holds is forgotten, and its nodes told REMOVED."""
        if member is self.primary:
            raise bad_argument("the primary cannot be removed; make another proxy")
        self._members.remove(member)
        self._leaving.append(member)
        try:
            if self._manager is not None:
                await self._manager.leave(member)
        finally:
            # Also when the caller is cancelled: nobody else knows of it any more.
            await self._end(member)
            for feed in member.feeds:
                feed.resign()
            self._leaving.remove(member)
            self._arrange()

    def arrange(self, endpoints: Sequence[str]) -> None:
        """Put the secondaries in the order of these addresses; those not named come last."""
        place = {endpoint: number for number, endpoint in enumerate(endpoints)}
        last = len(place)
        self._members[1:] = sorted(
            self._members[1:], key=lambda member: place.get(member.endpoint, last)
        )
        self._arrange()

    async def close(self) -> None:
        """Stop following. Closing twice is harmless."""
        self._running = False
        for member in {*self._members, *self._tasks}:
            await self._end(member)

    def _join(self, client: NodeClient) -> Member:
        if any(each.endpoint == client.endpoint for each in self._members):
            raise bad_argument(
                f"{quote(client.endpoint)} is followed already; name each address once"
            )
        how = self._following
        reader = self._feed(client, how.watch, self._readers)
        mirror = self._feed(client, how.mirror, self._mirrors) if how.mirror else reader
        if mirror is not reader:
            mirror.buffer.abandon()
        member = Member(client, reader, mirror)
        self._members.append(member)
        self._arrange()
        return member

    def _feed(
        self, client: NodeClient, watch: Callable[[NodeClient], Watch], owners: Owners
    ) -> Feed:
        how = self._following
        return Feed(
            client,
            watch(client),
            SourceBuffer(how.limit),
            owners=owners,
            first=not self._members,
            patience=how.patience,
            arrived=how.arrived,
            taken=how.taken,
        )

    def _arrange(self) -> None:
        # One that is about to leave has its last word to say yet.
        self._merge.arrange([each.reader.buffer for each in (*self._members, *self._leaving)])

    def _follow(self, member: Member) -> None:
        self._tasks[member] = [asyncio.create_task(feed.run()) for feed in member.feeds]

    async def _end(self, member: Member) -> None:
        for feed in member.feeds:
            await feed.close()
        tasks = self._tasks.pop(member, [])
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
