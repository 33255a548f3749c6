"""Descriptions of namespaces, for calls to nodes that may not know them yet."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import grpc

from kvtier.client.errors import NotFoundError, Reason, typed
from kvtier.client.index import BlockIndex
from kvtier.client.node import NodeClient
from kvtier.client.proxy.fleet import Fleet
from kvtier.v1.namespace_pb2 import Namespace
from kvtier.wire.errors import quote
from kvtier.wire.namespaces import fingerprint

T = TypeVar("T")


class Descriptions:
    """The namespaces that the nodes of a proxy have described.

    Args:
        fleet: The nodes.
        index: What their events told.
    """

    def __init__(self, fleet: Fleet, index: BlockIndex) -> None:
        self._fleet = fleet
        self._index = index
        self._listed: dict[bytes, Namespace] = {}

    async def of(self, namespace: bytes) -> Namespace:
        """Return the description of a namespace; the primary is asked when no event told it.

        Args:
            namespace: The fingerprint, 32 bytes.

        Raises:
            NotFoundError: When nobody knows it.
            KvtierError: When the primary did not answer.
        """
        known = self._index.namespaces().get(namespace) or self._listed.get(namespace)
        if known is None:
            primary = self._fleet.primary.client
            self._listed = {fingerprint(each): each for each in await primary.list_namespaces()}
            known = self._listed.get(namespace)
        if known is None:
            raise typed(
                grpc.StatusCode.NOT_FOUND,
                Reason.NAMESPACE_UNKNOWN,
                f"namespace {quote(namespace)} is registered at no node; register it first",
            )
        return known


async def knowing(
    client: NodeClient, description: Namespace, attempt: Callable[[], Awaitable[T]]
) -> T:
    """Make an attempt, and one more when the node did not know the namespace: it is told.

    Args:
        client: The node's client.
        description: The namespace.
        attempt: The call.
    """
    try:
        return await attempt()
    except NotFoundError as error:
        if error.reason != Reason.NAMESPACE_UNKNOWN:
            raise
    await client.register_namespace(description)
    return await attempt()
