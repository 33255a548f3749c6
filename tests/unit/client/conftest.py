"""A scripted node and a client of it, an index and a script to feed it."""

from collections.abc import AsyncIterator

import pytest

from kvtier.client import BlockIndex, NodeClient
from kvtier.v1.tier_service_pb2 import (
    ListNamespacesResponse,
)

from .fakes import FakeNode
from .messages import LARGE, NAMESPACE, Script


@pytest.fixture
async def node() -> AsyncIterator[FakeNode]:
    async with FakeNode() as fake:
        yield fake


@pytest.fixture
def knowing(node: FakeNode) -> FakeNode:
    """Return the node, which knows the test's namespaces."""
    known = ListNamespacesResponse(namespaces=[NAMESPACE, LARGE])
    node.on("ListNamespaces", lambda _: known)
    return node


@pytest.fixture
async def client(node: FakeNode) -> AsyncIterator[NodeClient]:
    async with NodeClient(node.endpoint) as client:
        yield client


@pytest.fixture
def index() -> BlockIndex:
    return BlockIndex()


@pytest.fixture
def script() -> Script:
    return Script("node")
