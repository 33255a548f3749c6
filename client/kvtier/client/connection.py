"""One node as a client reaches it: connections, deadlines, errors and remembered namespaces."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import grpc
import grpc.aio

from kvtier.client.arguments import build, check_seconds
from kvtier.client.channel import check_endpoint
from kvtier.client.errors import (
    KvtierError,
    NotFoundError,
    Reason,
    client_closed,
    from_told,
    told_by,
    typed,
)
from kvtier.client.link import Bulk, Link
from kvtier.v1.namespace_pb2 import Namespace
from kvtier.v1.removal_pb2 import DeleteNamespaceRequest, DeleteNamespaceResponse
from kvtier.v1.tier_service_pb2 import (
    ListNamespacesRequest,
    RegisterNamespaceRequest,
)
from kvtier.wire.credentials import Credentials, Identity
from kvtier.wire.errors import quote
from kvtier.wire.namespaces import fingerprint

if TYPE_CHECKING:
    from kvtier.v1.event_service_pb2_grpc import EventServiceAsyncStub
    from kvtier.v1.node_service_pb2_grpc import NodeServiceAsyncStub
    from kvtier.v1.tier_service_pb2_grpc import TierServiceAsyncStub

T = TypeVar("T")
Request = TypeVar("Request")
Response = TypeVar("Response")

# Calls over connections that were left have this many seconds to end: longer than a lease lives.
_GRACE_SECONDS = 300.0


class Connection:
    """What the calls of one client share.

    Nothing is opened before the first call, so that a client can be made anywhere; from then on it
    belongs to the event loop of that call.

    Attributes:
        endpoint: The node's address.
        owner: Who holds the leases that this client takes.
        timeout: Seconds that a call may take, and that a transfer may stand still.
        credentials: TLS and who the caller is; None for plaintext and nobody.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        owner: str | None,
        timeout: float,
        credentials: Credentials | None = None,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        check_seconds("timeout", timeout)
        self.endpoint = check_endpoint(endpoint)
        self.owner = owner or f"{socket.gethostname()}:{os.getpid()}:{random_bytes(4).hex()}"
        self.timeout = timeout
        self.credentials = credentials
        self.random_bytes = random_bytes
        self._registered: dict[bytes, Namespace] = {}
        self._listed: dict[bytes, Namespace] = {}
        identity = self._identity()
        if identity is not None:
            identity.check(self.endpoint)
        self._link = Link(self.endpoint, identity)
        self._left: dict[Link, asyncio.Task[None]] = {}
        self._closed = False

    @property
    def link(self) -> Link:
        """The connections that the next call goes over: new ones when the credentials changed.

        Raises:
            FailedPreconditionError: When the client is closed.
        """
        self.check_open()
        if self.credentials is not None and self._identity() is not self._link.identity:
            self._begin_anew()
        return self._link

    def _identity(self) -> Identity | None:
        return None if self.credentials is None else self.credentials.identity()

    def check_open(self) -> None:
        """Raise FAILED_PRECONDITION when the client is closed."""
        if self._closed:
            raise client_closed(self.endpoint)

    def leave(self, link: Link) -> None:
        """Make the next calls over new connections: these brought nothing when something was due.

        A peer that is gone without a word is noticed by gRPC only after most of a minute, and
        until then every call would be sent into the void. Calls under way may end where they are.
        Connections that are still being made are left to gRPC, which knows when to try again.
        """
        if link is self._link and link.connected and not self._closed:
            self._begin_anew()

    def _begin_anew(self) -> None:
        left, self._link = self._link, Link(self.endpoint, self._identity())
        self._left[left] = asyncio.create_task(self._retire(left))

    async def _retire(self, link: Link) -> None:
        # A call that is made once more, see `remembering`, begins where it began at first.
        await asyncio.sleep(2 * self.timeout)
        await link.unwatched()
        await link.close(max(_GRACE_SECONDS, self.timeout))
        del self._left[link]

    @property
    def tiers(self) -> "TierServiceAsyncStub":
        """The stub of TierService."""
        return self.link.control[0]

    @property
    def events(self) -> "EventServiceAsyncStub":
        """The stub of EventService."""
        return self.link.control[1]

    @property
    def operating(self) -> "NodeServiceAsyncStub":
        """The stub of NodeService."""
        return self.link.operating

    @property
    def bulk(self) -> Bulk:
        """The calls of TransferService, on the bulk channel."""
        return self.link.bulk

    async def call(
        self,
        method: grpc.aio.UnaryUnaryMultiCallable[Request, Response],
        request: Request,
        namespace: bytes = b"",
        *,
        wait: bool = False,
        deadline: float | None = None,
    ) -> Response:
        """Return a node's answer.

        Args:
            method: The method of a stub.
            request: What to ask.
            namespace: The fingerprint that the request names, if it names one.
            wait: Wait for the connection, within the timeout, rather than fail without one.
            deadline: Seconds that this call may take; None for the timeout of all calls.

        Raises:
            KvtierError: One of the tree in `kvtier.client.errors`.
        """
        seconds = self.timeout if deadline is None else deadline

        async def attempt() -> Response:
            try:
                return await method(request, timeout=seconds, wait_for_ready=wait or None)
            except grpc.aio.AioRpcError as error:
                raise self.failure(error, seconds) from None

        return await self.remembering(namespace, attempt)

    async def remembering(self, namespace: bytes, attempt: Callable[[], Awaitable[T]]) -> T:
        """Make an attempt, and one more when the node forgot a namespace registered here.

        A node that started anew knows no namespaces, so the description is registered again.
        """
        try:
            return await attempt()
        except NotFoundError as error:
            description = self._registered.get(namespace)
            if description is None or error.reason != Reason.NAMESPACE_UNKNOWN:
                raise
        # One connection may be back before the other: this one is waited for.
        await self.register(description, wait=True)
        return await attempt()

    async def register(self, description: Namespace, *, wait: bool = False) -> bytes:
        """Register a namespace, remember it, and return its fingerprint.

        Args:
            description: The namespace.
            wait: Wait for the connection, within the timeout, rather than fail without one.
        """
        answer = await self.call(
            self.tiers.RegisterNamespace,
            build(RegisterNamespaceRequest, namespace=description),
            wait=wait,
        )
        # The caller may go on to change its own message.
        kept = Namespace()
        kept.CopyFrom(description)
        self._registered[answer.fingerprint] = kept
        return answer.fingerprint

    async def delete_namespace(self, namespace: bytes, *, force: bool) -> DeleteNamespaceResponse:
        """Delete a namespace, and forget it unless the node keeps it.

        Args:
            namespace: The fingerprint, 32 bytes.
            force: Remove leased and pinned blocks too.
        """
        request = build(DeleteNamespaceRequest, namespace=namespace, force=force)
        try:
            answer = await self.call(self.tiers.DeleteNamespace, request)
        except NotFoundError:
            self._forget(request.namespace)
            raise
        self._forget(request.namespace)
        return answer

    def _forget(self, namespace: bytes) -> None:
        self._registered.pop(namespace, None)
        self._listed.pop(namespace, None)

    async def describe(self, namespace: bytes) -> Namespace:
        """Return a namespace's description, asking the node once.

        Raises:
            NotFoundError: When neither this client nor the node knows it.
        """
        known = self._registered.get(namespace) or self._listed.get(namespace)
        if known is None:
            answer = await self.call(self.tiers.ListNamespaces, ListNamespacesRequest())
            self._listed = {fingerprint(one): one for one in answer.namespaces}
            known = self._listed.get(namespace)
        if known is None:
            raise typed(
                grpc.StatusCode.NOT_FOUND,
                Reason.NAMESPACE_UNKNOWN,
                f"namespace {quote(namespace)} is not registered at {self.endpoint}; "
                "register it first",
                metadata={"endpoint": self.endpoint},
            )
        return known

    def failure(self, error: grpc.aio.AioRpcError, seconds: float | None = None) -> KvtierError:
        """Return the exception that says why a call to this node failed.

        Args:
            error: What gRPC raised.
            seconds: The seconds that the call had; None for the timeout of all calls.
        """
        return self.told(told_by(error), seconds)

    def told(self, told: KvtierError, seconds: float | None = None) -> KvtierError:
        """Return the exception of the tree for an error as it travelled."""
        timeout = self.timeout if seconds is None else seconds
        return from_told(told, self.endpoint, timeout, self.credentials)

    async def close(self) -> None:
        """Close the connections; calls under way are cancelled. Closing twice is harmless."""
        self._closed = True
        left, self._left = self._left, {}
        for task in left.values():
            task.cancel()
        await asyncio.gather(*left.values(), return_exceptions=True)
        for link in (*left, self._link):
            await link.close()
