"""One node in front, others behind it: a merged event stream and merged lookups."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import NamedTuple, Self

import grpc

from kvtier.client.arguments import bad_argument
from kvtier.client.closing import Closing
from kvtier.client.errors import KvtierError, typed
from kvtier.client.feed import Feed, follow
from kvtier.client.index import BlockIndex
from kvtier.client.lookup import MirrorAnswer, ProxyLookup, merge_lookup
from kvtier.client.merge import Merge
from kvtier.client.node import NodeClient
from kvtier.client.source import Quality
from kvtier.client.watch import Watch
from kvtier.v1.block_pb2 import BlockSet
from kvtier.v1.event_service_pb2 import NodePosition, SourceState, WatchEventsResponse
from kvtier.v1.tier_service_pb2 import (
    TouchBlocksResponse,
)
from kvtier.wire.errors import quote
from kvtier.wire.hashes import split_hashes


class SourceStatus(NamedTuple):
    """What a proxy knows of one source.

    Attributes:
        endpoint: Its address.
        node_id: Its node's id; empty before the node was heard of.
        state: Its state.
        reason: Why, in a few words.
    """

    endpoint: str
    node_id: str
    state: SourceState.ValueType
    reason: str


class TieringProxy(Closing):
    """A primary node and the secondaries behind it, in order, as one.

    It follows every node. The events that it hands on are the nodes' own, untouched: it merges, and
    never makes one up. A node that is out of reach shows as a `State` message of that node, and
    holds up nothing. What the secondaries hold is mirrored, so that a lookup asks the primary only.

    Use it as an asynchronous context manager. The clients stay open when it ends. Messages that
    nobody takes are kept up to a limit for each node; past it the node's are dropped, and whoever
    takes again gets a reset and a snapshot of that node.

    Args:
        primary: The node that this proxy is local to.
        secondaries: The nodes behind it, in order.
        positions: Where to resume the merged stream, as another proxy's `positions` told. The
            secondaries are then followed twice: from there for the reader, and from a snapshot on
            for the mirror.
        require_primary: Hand on nothing of the secondaries while the primary is not in sync. What
            they deliver meanwhile waits, up to the limit.
        watch: Makes the watch of a node, given its client, and `positions` when there are any.
        quota: Most messages of one secondary in a round of `watch()`.
        buffer_bytes: Size at which a node's messages are too many.
        patience: Seconds that a full buffer waits while nothing is taken from it, before it is
            given up.
    """

    def __init__(
        self,
        primary: NodeClient,
        secondaries: Sequence[NodeClient],
        *,
        positions: Sequence[NodePosition] = (),
        require_primary: bool = False,
        watch: Callable[..., Watch] = Watch,
        quota: int = 64,
        buffer_bytes: int = 16 << 20,
        patience: float = 1.0,
    ) -> None:
        if quota < 1:
            raise bad_argument(f"quota must be at least 1; got {quote(quota)}")
        if buffer_bytes < 1:
            raise bad_argument(f"buffer_bytes must be at least 1; got {quote(buffer_bytes)}")
        if not patience >= 0:
            raise bad_argument(f"patience must be at least 0 s; got {quote(patience)}")
        positions = [each for each in positions if each.HasField("position")]
        self._mirror = BlockIndex()
        self._arrived = asyncio.Event()
        self._taken = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._closed = False
        followed = partial(
            follow,
            limit=buffer_bytes,
            patience=patience,
            arrived=self._arrived,
            taken=self._taken,
        )
        resuming = partial(watch, positions=positions) if positions else watch
        mirror = None if positions else self._mirror
        mirrors = [None, *[mirror for _ in secondaries]]
        self._read = followed((primary, *secondaries), resuming, mirrors)
        self._mirrored = self._read[1:]
        if positions:
            # A mirror cannot begin in the middle.
            self._mirrored = followed(secondaries, watch, [self._mirror for _ in secondaries])
            for feed in self._mirrored:
                feed.buffer.abandon()
        self._merge = Merge(
            [feed.buffer for feed in self._read],
            quota=quota,
            require_primary=require_primary,
            positions=positions,
        )

    @property
    def mirror(self) -> BlockIndex:
        """What the secondaries hold, as far as their events tell."""
        return self._mirror

    @property
    def positions(self) -> list[NodePosition]:
        """Where another proxy can go on after the message that was taken last."""
        return self._merge.positions

    @property
    def sources(self) -> list[SourceStatus]:
        """What is known now of each source, the primary first."""
        return [
            SourceStatus(feed.client.endpoint, feed.node_id, feed.state, feed.reason)
            for feed in self._read
        ]

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(feed.run()) for feed in self._feeds()]
        return self

    async def close(self) -> None:
        """Stop following, and end `watch()`. Closing twice is harmless."""
        self._closed = True
        self._arrived.set()
        for feed in self._feeds():
            await feed.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def take_events(self) -> list[WatchEventsResponse]:
        """Take what has come: all of the primary's messages, then each secondary's in order.

        Each source's messages are in their order, as the node sent them. There is one reader: what
        this takes, `watch()` does not bring.
        """
        self._attend()
        return list(self._merge.all())

    async def watch(self) -> AsyncIterator[WatchEventsResponse]:
        """Yield messages without end, in rounds, until the proxy is closed.

        A round is all that the primary had delivered at its start, then at most `quota` messages of
        each secondary, in order. So a message of the primary waits for at most one round, whatever
        the secondaries deliver.
        """
        while not self._closed:
            self._arrived.clear()
            for message in self._merge.round():
                yield message
                self._taken.set()
            self._attend()
            if not self._merge.ready:
                await self._arrived.wait()

    async def lookup(self, namespace: bytes, chains: Sequence[BlockSet]) -> list[ProxyLookup]:
        """Tell where the blocks of each chain are. It asks the primary, and nobody else.

        The first source that has a block wins: the primary, then the secondaries in order. A block
        that nobody is known to have is RETRY while the mirror of a secondary is not in sync, else
        MISS. A mirror is not in sync while the secondary is being connected, sends its snapshot or
        is suspect, and after it sent what could not be applied: then a new snapshot is asked for.
        A secondary that is down counts as having nothing, and so does a tier that is SILENT, now
        and for as long as it is: asking again would never tell more. A block that only such a tier
        holds is thus a MISS.

        Args:
            namespace: The fingerprint, 32 bytes.
            chains: The chains, each parent first.

        Raises:
            KvtierError: When the primary did not answer.
        """
        answer = await self._read[0].client.lookup(namespace, chains, include_blocks=True)
        return [
            merge_lookup(told, self._ask_mirror(namespace, chain, len(told.results)))
            for chain, told in zip(chains, answer.chains, strict=True)
        ]

    async def touch(
        self, namespace: bytes, blocks: Sequence[BlockSet], *, request_id: str = ""
    ) -> list[TouchBlocksResponse | KvtierError]:
        """Stamp blocks as used, on the primary and on every secondary at once.

        Args:
            namespace: The fingerprint, 32 bytes.
            blocks: The blocks, numbered by their place over all sets.
            request_id: The request that used them.

        Returns:
            For each source, the primary first, what it answered, or why it did not. One that is
            known to be down is not asked.

        Raises:
            KvtierError: When the primary did not answer.
        """
        answers = await asyncio.gather(
            self._read[0].client.touch(namespace, blocks, request_id=request_id),
            *(_touch(feed, namespace, blocks, request_id) for feed in self._mirrored),
        )
        return list(answers)

    def _feeds(self) -> set[Feed]:
        return {*self._read, *self._mirrored}

    def _attend(self) -> None:
        self._taken.set()
        # A secondary that may not be taken from yet would only fill its buffer once more.
        for feed in self._read[:1] if self._merge.secondaries_wait else self._read:
            feed.attend()

    def _ask_mirror(self, namespace: bytes, chain: BlockSet, blocks: int) -> list[MirrorAnswer]:
        """Return what each secondary holds of a chain, in their order."""
        hashes = split_hashes(chain.block_hashes, len(chain.block_hashes) // blocks)
        key = (namespace, chain.group, chain.scope, hashes)
        trusted = [feed.node_id for feed in self._mirrored if self._trusts(feed)]
        lengths = self._mirror.prefix(*key, nodes=trusted).nodes
        return [
            MirrorAnswer(
                in_sync=True,
                held=self._mirror.held(feed.node_id, *key),
                prefix_length=lengths[feed.node_id],
            )
            if feed.node_id in lengths
            # Asking again for what a dead node held would hold the asker up as long as it is dead.
            else MirrorAnswer(in_sync=feed.state == SourceState.SOURCE_STATE_DOWN)
            for feed in self._mirrored
        ]

    def _trusts(self, feed: Feed) -> bool:
        down = feed.state == SourceState.SOURCE_STATE_DOWN
        return not down and self._mirror.quality(feed.node_id) is Quality.EXACT


async def _touch(
    feed: Feed, namespace: bytes, blocks: Sequence[BlockSet], request_id: str
) -> TouchBlocksResponse | KvtierError:
    if feed.state == SourceState.SOURCE_STATE_DOWN:
        return typed(grpc.StatusCode.UNAVAILABLE, "", feed.reason)
    try:
        return await feed.client.touch(namespace, blocks, request_id=request_id)
    except KvtierError as error:
        return error
