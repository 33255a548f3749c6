"""A drain in the middle of copies: they end, or are given up before followers are sent off."""

import asyncio

import pytest

from kvtier.client import UnavailableError
from kvtier.v1.copying_pb2 import CopyBlocksResponse

from .conftest import Serve
from .copy_gate import CopyGate
from .support import Serving, payloads, run
from .tiers_of_two import CPU, GPU, exclusive


async def copy(node: Serving, *blocks: object) -> list[CopyBlocksResponse]:
    """Copy blocks down, and return what was answered."""
    answers = node.client.copy(node.namespace, [run(*blocks)], from_tier=GPU, to_tier=CPU)
    return [answer async for answer in answers]


async def test_a_copy_goes_no_further_once_the_node_drains(serve: Serve, gate: CopyGate) -> None:
    """The step under way ends; the next is refused as any new work is."""
    node = await serve(*exclusive(4, 4))
    await node.client.store(GPU, node.namespace, [run(*"abcd")], payloads(*"abcd"))
    gate.shut()
    copying = asyncio.create_task(copy(node, *"abcd"))
    await gate.reached()

    node.node.closing = True
    gate.let_through()

    with pytest.raises(UnavailableError, match="draining"):
        await copying
    assert len(await node.held(CPU)) == 1


async def test_nothing_is_told_after_followers_were_sent_off(serve: Serve, gate: CopyGate) -> None:
    """A copy that outlasts the drain changes nothing that a follower would have to hear of."""
    node = await serve(*exclusive(1, 4))
    await node.client.store(GPU, node.namespace, [run("a")], payloads("a"))
    gate.shut()
    storing = asyncio.create_task(
        node.client.prepare_store(GPU, node.namespace, [run("b")], lease_id=b"i" * 16)
    )
    await gate.reached()
    log = node.node.log

    stopping = asyncio.create_task(node.server.drain_and_stop())
    async with asyncio.timeout(10):
        await node.node.draining.wait()
    head = log.head
    gate.let_through()
    await stopping

    assert log.head == head
    storing.cancel()
    await asyncio.wait({storing})
