"""Nodes in this process that end with their test."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from .support import LocalNode

MakeNode = Callable[..., LocalNode]


@pytest.fixture
def make_node() -> Iterator[MakeNode]:
    """Make nodes: call it with tiers and settings."""
    nodes: list[LocalNode] = []

    def make(*tiers: dict[str, object], **settings: Any) -> LocalNode:
        nodes.append(LocalNode(*tiers, **settings))
        return nodes[-1]

    yield make
    for node in nodes:
        node.close()


@pytest.fixture
def node(make_node: MakeNode) -> LocalNode:
    """A node with one tier of four blocks."""
    return make_node()
