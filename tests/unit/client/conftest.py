"""A scripted node, and a client of it."""

from collections.abc import AsyncIterator

import pytest

from kvtier.client import NodeClient

from .fakes import FakeNode


@pytest.fixture
async def node() -> AsyncIterator[FakeNode]:
    async with FakeNode() as fake:
        yield fake


@pytest.fixture
async def client(node: FakeNode) -> AsyncIterator[NodeClient]:
    async with NodeClient(node.endpoint) as client:
        yield client
