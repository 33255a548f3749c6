"""`kvtier get blocks` says when a listing is not complete."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from kvtier.cli.commands import get_blocks
from kvtier.v1.event_service_pb2 import TierState
from kvtier.v1.tier_pb2 import Block, Node, Tier

RECOVERING, READY = TierState.TIER_STATE_RECOVERING, TierState.TIER_STATE_READY


class FakeNode:
    """A node with one block, whose tier of files is recovering until it was listed."""

    endpoint = "there:1"

    def __init__(self) -> None:
        self._state = RECOVERING

    async def get_node(self) -> Node:
        return Node(node_id="n1")

    async def list_tiers(self) -> list[Tier]:
        fs0 = Tier(name="fs0", state=self._state, state_reason="62 %")
        return [Tier(name="cpu0", state=READY), fs0]

    async def list_namespaces(self) -> list[Any]:
        return []

    async def list_blocks(self, **_: object) -> AsyncIterator[Block]:
        yield Block(tier="fs0")
        self._state = READY


class Rows(list[Any]):
    """What was printed."""

    write = list.extend


@pytest.mark.parametrize(("tiers", "noted"), [((), True), (("fs0",), True), (("cpu0",), False)])
async def test_a_listing_of_a_tier_that_recovers_is_noted(
    tiers: tuple[str, ...], noted: bool
) -> None:
    """Also when it is ready by the end of the listing, which began before."""
    node: Any = FakeNode()
    rows: Any = Rows()

    wanted = get_blocks._Filter(None, tiers, None, None)
    listed, said = await get_blocks._list_node(node, wanted, None, rows)

    note = "there:1: tier fs0 is recovering (62 %), and may hold more than is listed"
    assert said == (note if noted else "")
    assert listed == len(rows) == 1
