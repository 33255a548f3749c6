"""The client of one node."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from kvtier.client.arguments import check_seconds
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
from kvtier.v1.node_service_pb2 import DrainRequest, DrainResponse
from kvtier.v1.removal_pb2 import DeleteNamespaceResponse
from kvtier.v1.tier_pb2 import Node, Tier
from kvtier.v1.tier_service_pb2 import (
    GetNodeRequest,
    ListNamespacesRequest,
    ListTiersRequest,
)
from kvtier.wire.credentials import Credentials

# HealthCheckResponse with status SERVING, encoded.
_SERVING = b"\x08\x01"
# A node's drain_timeout is an hour at most; deletions and the last events take some seconds more.
LONGEST_DRAIN = 3660.0


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
        credentials: TLS and who the caller is; None for plaintext and nobody. When its files
            change, the next calls go over new connections, within a second, and those under way
            end where they are.
        random_bytes: Where lease ids come from.

    Raises:
        InvalidArgumentError: When the endpoint or the timeout cannot be one.
        CredentialsError: When a token would go in plaintext to another host.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        owner: str | None = None,
        timeout: float = 5.0,
        credentials: Credentials | None = None,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        super().__init__(
            Connection(
                endpoint,
                owner=owner,
                timeout=timeout,
                credentials=credentials,
                random_bytes=random_bytes,
            )
        )

    @property
    def endpoint(self) -> str:
        """The node's address."""
        return self._connection.endpoint

    @property
    def owner(self) -> str:
        """Who holds the leases that this client takes."""
        return self._connection.owner

    @property
    def credentials(self) -> Credentials | None:
        """TLS and who the caller is."""
        return self._connection.credentials

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

    async def is_ready(self) -> bool:
        """Tell whether the node, or the proxy, says that it is ready, by grpc.health.v1.

        It is not while it starts, while a tier recovers, and once it drains.
        """
        return await self._connection.call(self._connection.link.health, b"") == _SERVING

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

    async def drain(self, *, deadline: float = LONGEST_DRAIN) -> DrainResponse:
        """Take the node out of service, and return what was left when its drain ended.

        It takes no stores, loads and pins any more, lets leases and transfers end for its
        `drain_timeout` at most, and sends its followers off. Its process stays until it is stopped,
        and answers what only reads. Draining again joins the drain under way, which goes on when
        this call ends before it.

        Args:
            deadline: Seconds that the call may take; by default more than any drain takes.
        """
        check_seconds("deadline", deadline)
        return await self._connection.call(
            self._connection.operating.Drain, DrainRequest(), deadline=deadline
        )

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
            link.watch(request),
            self._connection.failure,
            partial(self._connection.leave, link),
        )
