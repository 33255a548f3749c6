"""The client of one node."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from kvtier.client.blocks import BlockCalls
from kvtier.client.closing import Closing
from kvtier.client.connection import Connection
from kvtier.client.leases import LeaseCalls
from kvtier.client.mapped.blocks import Blocks
from kvtier.client.stream import EventStream, watch_request
from kvtier.client.transfer import TransferCalls
from kvtier.v1.block_pb2 import Medium
from kvtier.v1.event_service_pb2 import EventView, NodePosition
from kvtier.v1.namespace_pb2 import Namespace
from kvtier.v1.removal_pb2 import DeleteNamespaceResponse
from kvtier.v1.tier_pb2 import Node, Tier
from kvtier.v1.tier_service_pb2 import (
    GetNodeRequest,
    ListNamespacesRequest,
    ListTiersRequest,
)


class NodeClient(BlockCalls, LeaseCalls, TransferCalls, Closing):
    """A client of one node, for asyncio.

    Use it as an asynchronous context manager, or call `close()`. Every unary call has a deadline.
    Calls that may be repeated without harm are, when the node is out of reach for a moment. A node
    that started anew and forgot a namespace which this client registered gets it registered again.

    Args:
        endpoint: The node's address, `host:port`.
        owner: Who holds the leases that this client takes, 1 to 256 bytes of printable text; by
            default the host, the process and a random number.
        timeout: Seconds that a call may take, and that a transfer may stand still.
        random_bytes: Where lease ids come from.

    Raises:
        InvalidArgumentError: When the endpoint or the timeout cannot be one.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        owner: str | None = None,
        timeout: float = 5.0,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        super().__init__(
            Connection(endpoint, owner=owner, timeout=timeout, random_bytes=random_bytes)
        )

    @property
    def endpoint(self) -> str:
        """The node's address."""
        return self._connection.endpoint

    @property
    def owner(self) -> str:
        """Who holds the leases that this client takes."""
        return self._connection.owner

    async def close(self) -> None:
        """Close the connections; calls under way are cancelled. Closing twice is harmless."""
        await self._connection.close()

    def blocks(
        self,
        tier: str,
        *,
        shared_memory: bool = True,
        shm_dir: Path | None = None,
        threads: int = 2,
    ) -> Blocks:
        """Store and load blocks of a tier by the fastest way that there is.

        On the node's own host that is the tier's memory itself, elsewhere a stream. Close it before
        the client.

        Args:
            tier: The tier's name.
            shared_memory: Whether the tier may be mapped into this process.
            shm_dir: Where the node's shared memory is in this process's sight, if it is neither
                where the node says nor in /dev/shm.
            threads: Threads that copy.
        """
        return Blocks(
            self,
            self._connection,
            tier,
            shared_memory=shared_memory,
            shm_dir=shm_dir,
            threads=threads,
        )

    async def get_node(self) -> Node:
        """Describe the node: identity, limits and the position of its log."""
        answer = await self._connection.call(self._connection.tiers.GetNode, GetNodeRequest())
        return answer.node

    async def list_tiers(self) -> list[Tier]:
        """Describe the tiers, fastest first."""
        answer = await self._connection.call(self._connection.tiers.ListTiers, ListTiersRequest())
        return list(answer.tiers)

    async def register_namespace(self, namespace: Namespace) -> bytes:
        """Make a namespace known to the node, and return its fingerprint, 32 bytes.

        Raises:
            FailedPreconditionError: When the name is taken by another description.
        """
        return await self._connection.register(namespace)

    async def delete_namespace(
        self, namespace: bytes, *, force: bool = False
    ) -> DeleteNamespaceResponse:
        """Remove a namespace's blocks from every tier, and make the node and this client forget it.

        Args:
            namespace: The fingerprint, 32 bytes.
            force: Remove leased and pinned blocks too.

        Raises:
            NotFoundError: When the node does not know it, or not any more.
            FailedPreconditionError: When blocks are leased or pinned, without force.
        """
        return await self._connection.delete_namespace(namespace, force=force)

    async def list_namespaces(self) -> list[Namespace]:
        """Describe the registered namespaces, by name."""
        answer = await self._connection.call(
            self._connection.tiers.ListNamespaces, ListNamespacesRequest()
        )
        return list(answer.namespaces)

    def watch_events(
        self,
        *,
        positions: Sequence[NodePosition] = (),
        tiers: Sequence[str] = (),
        media: Sequence[Medium.ValueType] = (),
        namespaces: Sequence[bytes] = (),
        view: EventView.ValueType = EventView.EVENT_VIEW_BASIC,
    ) -> EventStream:
        """Follow the node until the stream breaks; `Watch` is the one that goes on by itself.

        Args:
            positions: Where to resume; a node not named starts with a reset and a snapshot.
            tiers: Names of tiers to see; none means all.
            media: Media to see; none means all.
            namespaces: Fingerprints to see; none means all.
            view: How much of each block to send.
        """
        request = watch_request(
            positions=positions, tiers=tiers, media=media, namespaces=namespaces, view=view
        )
        link = self._connection.link
        return EventStream(
            link.control[1].WatchEvents(request),
            self._connection.failure,
            partial(self._connection.leave, link),
        )
