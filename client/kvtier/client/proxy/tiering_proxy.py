"""One node in front, others behind it: a merged event stream and merged lookups."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Self

import grpc

from kvtier.client.arguments import bad_argument
from kvtier.client.closing import Closing
from kvtier.client.errors import NotFoundError, typed
from kvtier.client.index import BlockIndex
from kvtier.client.node import NodeClient
from kvtier.client.placement import Chain, Placement, Weights, rank_nodes
from kvtier.client.proxy.following.members import Following, Members
from kvtier.client.proxy.following.merge import Merge
from kvtier.client.proxy.lookup import ProxyLookup, SourceAnswer, answer_of, merge_lookup
from kvtier.client.proxy.managing import Managing
from kvtier.client.proxy.membership.endpoints import Endpoints
from kvtier.client.proxy.membership.roster import Roster
from kvtier.client.proxy.mirrored import MirroredChain, TierFilter, chain_key
from kvtier.client.proxy.settings import CascadeSettings, PromotionSettings
from kvtier.client.watch import Watch
from kvtier.v1.block_pb2 import BlockSet, Locality, Medium
from kvtier.v1.event_service_pb2 import NodePosition, SourceState, WatchEventsResponse
from kvtier.v1.namespace_pb2 import Namespace
from kvtier.wire.errors import Reason, quote


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
        membership: Lists of the secondaries' endpoints as they change, such as `membership.dns`, in
            place of `secondaries`. The clients made for them are closed with the proxy.
        connect: Makes the client of an endpoint that joins; where nodes want TLS,
            `partial(NodeClient, credentials=...)`.
        cascades: How stores on the primary go on to the secondaries.
        promotions: How blocks that only a secondary has come to the primary.
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

    Attributes:
        store, prepare_store, complete_store: Store on the primary, and from there on the
            secondaries; see `Storing`.
        load, prepare_load, complete_load: Load from the primary, which is brought what only a
            secondary has; see `Loading`.
        touch, delete, clear, drain: Call every node; see `FanningOut`.
        managing: The parts that do it, and what they count.
    """

    def __init__(
        self,
        primary: NodeClient,
        secondaries: Sequence[NodeClient] = (),
        *,
        membership: AsyncIterator[Endpoints] | None = None,
        connect: Callable[[str], NodeClient] = NodeClient,
        cascades: CascadeSettings | None = None,
        promotions: PromotionSettings | None = None,
        positions: Sequence[NodePosition] = (),
        require_primary: bool = False,
        watch: Callable[..., Watch] = Watch,
        quota: int = 64,
        buffer_bytes: int = 16 << 20,
        patience: float = 1.0,
    ) -> None:
        if secondaries and membership is not None:
            raise bad_argument("secondaries and membership were both given; give one")
        if quota < 1:
            raise bad_argument(f"quota must be at least 1; got {quote(quota)}")
        if buffer_bytes < 1:
            raise bad_argument(f"buffer_bytes must be at least 1; got {quote(buffer_bytes)}")
        if not patience >= 0:
            raise bad_argument(f"patience must be at least 0 s; got {quote(patience)}")
        positions = [each for each in positions if each.HasField("position")]
        self._arrived = asyncio.Event()
        self._taken = asyncio.Event()
        self._closed = False
        self._merge = Merge(quota=quota, require_primary=require_primary, positions=positions)
        following = Following(
            watch=partial(watch, positions=positions) if positions else watch,
            # A mirror cannot begin in the middle.
            mirror=watch if positions else None,
            limit=buffer_bytes,
            patience=patience,
            arrived=self._arrived,
            taken=self._taken,
        )
        self._members = Members(primary, secondaries, BlockIndex(), self._merge, following)
        managing = Managing(self._members, self.index, cascades=cascades, promotions=promotions)
        self._members.tell(managing)
        self.managing = managing
        self.store = managing.storing.store
        self.prepare_store = managing.storing.prepare_store
        self.complete_store = managing.storing.complete_store
        self.load = managing.loading.load
        self.prepare_load = managing.loading.prepare_load
        self.complete_load = managing.loading.complete_load
        self.touch = managing.everybody.touch
        self.delete = managing.everybody.delete
        self.clear = managing.everybody.clear
        self.drain = managing.everybody.drain
        self._roster = Roster(self._members, membership, connect) if membership else None
        self._looking_out: asyncio.Task[None] | None = None

    @property
    def index(self) -> BlockIndex:
        """What all nodes hold, as far as their events tell."""
        return self._members.index

    @property
    def members(self) -> Members:
        """Whom the proxy follows, the primary first; secondaries may be added and removed."""
        return self._members

    @property
    def positions(self) -> list[NodePosition]:
        """Where another proxy can go on after the message that was taken last."""
        return self._merge.positions

    @property
    def sources(self) -> list[SourceStatus]:
        """What is known now of each node, the primary first."""
        return [
            SourceStatus(member.endpoint, node_id, standing.state, standing.reason)
            for member in self._members
            for node_id, standing in member.reader.standings()
        ]

    async def __aenter__(self) -> Self:
        self._members.start()
        if self._roster is not None:
            self._looking_out = asyncio.create_task(self._roster.run())
        return self

    async def close(self) -> None:
        """Stop following, and end `watch()`. Closing twice is harmless."""
        self._closed = True
        self._arrived.set()
        if self._looking_out is not None:
            self._looking_out.cancel()
            await asyncio.gather(self._looking_out, return_exceptions=True)
        await self.managing.close()
        await self._members.close()
        if self._roster is not None:
            await self._roster.close()

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

    async def lookup(
        self,
        namespace: bytes,
        chains: Sequence[BlockSet],
        *,
        hint: bool = False,
        media: Sequence[Medium.ValueType] = (),
        localities: Sequence[Locality.ValueType] = (),
    ) -> list[ProxyLookup]:
        """Tell where the blocks of each chain are. It asks the primary, and nobody else.

        The first source that has a block wins: the primary, then the secondaries in order. A block
        that nobody is known to have is RETRY while too little is known of a source, or a tier of
        any source is RECOVERING, else MISS. Too little is known while the node is being connected,
        sends its snapshot or is suspect, and after it sent what could not be applied: then a new
        snapshot is asked for.
        A secondary that is down counts as having nothing, and so does a tier that is SILENT, now
        and for as long as it is: asking again would never tell more. A block that only such a tier
        holds is thus a MISS.
        A primary that does not know the namespace, such as one that started anew, has nothing of
        it; what others have is found all the same.

        Args:
            namespace: The fingerprint, 32 bytes.
            chains: The chains, each parent first.
            hint: Ask nobody: what the index says of the primary is enough.
            media: The only media whose tiers count; none means all.
            localities: The only localities whose tiers count; none means all.

        Raises:
            KvtierError: When the primary did not answer; NOT_FOUND when no node has described the
                namespace.
        """
        look_up = partial(
            MirroredChain, self._members, self.managing.verdicts, TierFilter(media, localities)
        )
        if hint:
            width = self._described(namespace).hash_width
            keys = [chain_key(namespace, chain, width) for chain in chains]
            return [self._merged(look_up(key)) for key in keys]
        primary = self._members.primary
        try:
            answer = await primary.client.lookup(
                namespace, chains, include_blocks=True, media=media, localities=localities
            )
        except NotFoundError as error:
            described = self.index.namespaces().get(namespace)
            if described is None or error.reason != Reason.NAMESPACE_UNKNOWN:
                raise
            keys = [chain_key(namespace, chain, described.hash_width) for chain in chains]
            return [self._merged_without(look_up(key)) for key in keys]
        if len(answer.chains) != len(chains) or not all(told.results for told in answer.chains):
            raise typed(
                grpc.StatusCode.UNAVAILABLE,
                "",
                f"{primary.endpoint} did not answer for every block; is it a node of this version?",
            )
        merged = []
        for chain, told in zip(chains, answer.chains, strict=True):
            width = len(chain.block_hashes) // len(told.results)
            asked = look_up(chain_key(namespace, chain, width))
            merged.append(self._merged(asked, answer_of(told, primary.endpoint)))
        return merged

    def _described(self, namespace: bytes) -> Namespace:
        described = self.index.namespaces().get(namespace)
        if described is None:
            raise typed(
                grpc.StatusCode.NOT_FOUND,
                Reason.NAMESPACE_UNKNOWN,
                f"no node has described the namespace {quote(namespace)}; register it",
            )
        return described

    def _merged(self, chain: MirroredChain, told: SourceAnswer | None = None) -> ProxyLookup:
        """Merge what is known of a chain, given what the primary told, if it was asked."""
        primary = told or chain.answer(self._members.primary)
        answers = [chain.answer(member) for member in self._members.secondaries]
        return merge_lookup(len(chain), [primary, *answers])

    def _merged_without(self, chain: MirroredChain) -> ProxyLookup:
        """Merge what is known of a chain whose namespace the primary does not know."""
        primary = chain.answer(self._members.primary)
        return self._merged(chain, replace(primary, held=(), prefix_length=0))

    def rank_nodes(
        self, namespace: bytes, chains: Sequence[Chain], weights: Weights
    ) -> list[Placement]:
        """Return the nodes in reach, the best place for a request first; see `rank_nodes`."""
        nodes = [node for each in self._members for node in each.node_ids]
        trusted = [node for node in nodes if self._members.trusts(node)]
        return rank_nodes(self.index, namespace, chains, weights, nodes=trusted)

    def _attend(self) -> None:
        self._taken.set()
        # A secondary that may not be taken from yet would only fill its buffer once more.
        waits = self._merge.secondaries_wait
        for member in (self._members.primary,) if waits else self._members:
            member.reader.attend()
