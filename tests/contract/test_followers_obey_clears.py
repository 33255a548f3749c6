"""What follows several nodes forgets what one of them cleared, and nothing of the others."""

import pytest

from kvtier.v1.result_pb2 import LookupResult

from .conftest import Serve
from .support import Serving, blocks_of, cpu_tier, hash_set
from .viewing import View, proxying

ONLY_FIRST = range(800)
ONLY_SECOND = range(1000, 1800)
COMMON = range(2000, 2200)
FRESH = range(3000, 3010)

HIT = LookupResult.LOOKUP_RESULT_HIT
MISS = LookupResult.LOOKUP_RESULT_MISS


async def fill(node: Serving, *groups: range) -> None:
    for group in groups:
        for first in range(0, len(group), 100):
            await node.store(*group[first : first + 100])


def seen(view: View, node: Serving) -> set[bytes]:
    return {key.block_hash for key in view.held(node.node.node_id)}


@pytest.mark.parametrize("cleared", [0, 1], ids=["the primary clears", "a secondary clears"])
async def test_a_cleared_node_is_seen_empty_and_the_other_untouched(
    serve: Serve, cleared: int
) -> None:
    """Also blocks that both had stay known at the node that did not clear."""
    nodes = [await serve(cpu_tier(2000)), await serve(cpu_tier(2000))]
    await fill(nodes[0], ONLY_FIRST, COMMON)
    await fill(nodes[1], ONLY_SECOND, COMMON)
    async with proxying(nodes[0].client, [nodes[1].client]) as (proxy, view):
        await view.settle(nodes[0].client)
        await view.settle(nodes[1].client)
        other = nodes[1 - cleared]
        before = seen(view, other)
        await nodes[cleared].client.clear("cpu0")
        await fill(nodes[cleared], FRESH)
        await view.settle(nodes[cleared].client)

    assert seen(view, nodes[cleared]) == hash_set(FRESH) == await nodes[cleared].held()
    assert seen(view, other) == before == await other.held()
    assert len(before) == 1000
    secondary = nodes[1].node.node_id
    assert {key.block_hash for key in proxy.index.blocks(secondary, "cpu0")} == seen(view, nodes[1])


async def test_a_lookup_through_a_proxy_forgets_what_a_secondary_cleared(serve: Serve) -> None:
    """A block that only the cleared node had is found no more, a common one still is."""
    primary, secondary = await serve(), await serve()
    await primary.store("both")
    await secondary.store("both")
    await secondary.store("far")
    async with proxying(primary.client, [secondary.client]) as (proxy, view):
        await view.settle(secondary.client)
        chains = [blocks_of("both"), blocks_of("far")]
        before = await proxy.lookup(primary.namespace, chains)
        await secondary.client.clear("cpu0")
        await view.settle(secondary.client)
        after = await proxy.lookup(primary.namespace, chains)

    assert [answer.results for answer in before] == [(HIT,), (HIT,)]
    assert [answer.results for answer in after] == [(HIT,), (MISS,)]
