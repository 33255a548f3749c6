"""A proxy that only reads, over nodes of this process, served over real gRPC."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import grpc.aio

from kvtier.client import BlockIndex, NodeClient, Quality, Watch
from kvtier.proxy.reading import ReadService
from kvtier.server.services.rpc import add_service
from kvtier.v1.event_service_pb2 import SourceState, State
from kvtier.v1.tier_pb2 import Limits, Node
from kvtier.v1.tier_service_pb2 import DESCRIPTOR
from tests.waiting import until

LIVE, DOWN = SourceState.SOURCE_STATE_LIVE, SourceState.SOURCE_STATE_DOWN
IDENTITY = Node(node_id="proxy", incarnation=7, limits=Limits(hashes=64))
DEADLINE = 0.5


class FollowedMember:
    """An endpoint, and the nodes that are followed for it: itself, or those behind it."""

    def __init__(self, index: BlockIndex, client: NodeClient, nodes: Sequence[NodeClient]) -> None:
        self.client = client
        self.states: dict[str, State] = {}
        self._index = index
        self._watches = [Watch(node) for node in nodes]
        self._known: dict[int, str] = {}
        self._tasks = [
            asyncio.create_task(self._follow(*each)) for each in enumerate(self._watches)
        ]

    @property
    def endpoint(self) -> str:
        return self.client.endpoint

    @property
    def node_ids(self) -> list[str]:
        return [name for _, name in sorted(self._known.items())]

    def state(self, node_id: str = "") -> SourceState.ValueType:
        return self._last(node_id).source

    def reason(self, node_id: str = "") -> str:
        return self._last(node_id).reason

    @property
    def down(self) -> bool:
        return all(self.state(node) == DOWN for node in self.node_ids or [""])

    async def close(self) -> None:
        for watch in self._watches:
            await watch.close()
        await asyncio.gather(*self._tasks)

    def _last(self, node_id: str) -> State:
        return self.states.get(node_id or next(iter(self.node_ids), ""), State())

    async def _follow(self, place: int, watch: Watch) -> None:
        async for message in watch:
            self._index.apply(message)
            if message.node_id:
                self._known[place] = message.node_id
            if message.HasField("state") and not message.state.tier:
                self.states[message.node_id] = message.state


class FollowedMembers:
    """Members in order; a node is trusted once it is live and its view exact."""

    def __init__(self, index: BlockIndex) -> None:
        self.all: list[FollowedMember] = []
        self._index = index

    @property
    def primary(self) -> FollowedMember:
        return self.all[0]

    def __iter__(self) -> Iterator[FollowedMember]:
        return iter(self.all)

    def trusts(self, node_id: str) -> bool:
        states = [each.state(node_id) for each in self.all if node_id in each.node_ids]
        return states == [LIVE] and self._index.quality(node_id) is Quality.EXACT


class ReadingProxy:
    """A proxy that serves.

    Attributes:
        endpoint: Its address.
        client: A client of it.
        index: What its nodes hold.
        members: Whom it follows.
    """

    def __init__(
        self, endpoint: str, client: NodeClient, index: BlockIndex, members: FollowedMembers
    ) -> None:
        self.endpoint = endpoint
        self.client = client
        self.index = index
        self.members = members

    async def hears(self, namespace: bytes, count: int) -> None:
        """Wait until the index has so many blocks of a namespace, over all tiers."""

        def known() -> int:
            return sum(
                block.namespace == namespace
                for node in self.index.nodes()
                for tier in self.index.tiers(node)
                for block in self.index.blocks(node, tier)
            )

        await until(lambda: known() == count)


@asynccontextmanager
async def reading_proxy(
    *members: str | tuple[str, Sequence[str]],
) -> AsyncIterator[ReadingProxy]:
    """Serve a proxy; its nodes are followed and in sync when it is given.

    Args:
        members: Addresses of nodes; of a proxy also those of the nodes behind it, which are
            followed in its place.
    """
    index = BlockIndex()
    followed = FollowedMembers(index)
    async with AsyncExitStack() as stack:

        async def connect(endpoint: str) -> NodeClient:
            return await stack.enter_async_context(NodeClient(endpoint))

        for each in members:
            endpoint, nodes = (each, [each]) if isinstance(each, str) else each
            clients = [await connect(node) for node in nodes]
            member = FollowedMember(index, await connect(endpoint), clients)
            stack.push_async_callback(member.close)
            followed.all.append(member)
            await until(lambda: len(member.node_ids) == len(clients))  # noqa: B023 - awaited at once
            await until(lambda: all(map(followed.trusts, member.node_ids)))  # noqa: B023
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        service = ReadService(followed, index, IDENTITY, lambda: 0, DEADLINE)
        add_service(server, DESCRIPTOR.services_by_name["TierService"], service, lambda: None)
        address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        await server.start()
        stack.push_async_callback(server.stop, None)
        yield ReadingProxy(address, await connect(address), index, followed)
