"""Nodes whose shelves are let go at the end, whatever a test did to them."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.unit.server.support import LocalNode

MakeNode = Callable[..., LocalNode]


@pytest.fixture
def make_node() -> Iterator[MakeNode]:
    """Make nodes in this process, as `LocalNode` does."""
    made: list[LocalNode] = []

    def make(*tiers: dict[str, object], **settings: Any) -> LocalNode:
        made.append(LocalNode(*tiers, **settings))
        return made[-1]

    yield make
    for local in made:
        for shelf in local.shelves.values():
            shelf.gate.set()
        local.close()
