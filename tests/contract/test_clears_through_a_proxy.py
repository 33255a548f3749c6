"""A proxy clears what it is told to, of the nodes and tiers that are named, and knows the rest."""

from collections.abc import AsyncIterator

import pytest

from kvtier.client import BlockKey

from .conftest import Serve
from .proxied import Proxied, proxied
from .support import block_hash, cpu_tier, gpu_tier, hash_set, payloads


@pytest.fixture(name="whole")
async def _whole(serve: Serve) -> AsyncIterator[Proxied]:
    """A proxy over two nodes with a faster and a slower tier each."""
    nodes = [await serve(gpu_tier(400), cpu_tier(2000)) for _ in range(2)]
    async with proxied(nodes) as whole:
        yield whole


def tiers_of(whole: Proxied, block: object) -> list[tuple[int, str]]:
    """Where a block is known to be: numbers of nodes, and tiers."""
    names = [node.node.node_id for node in whole.nodes]
    key = BlockKey(whole.namespace, 0, b"", block_hash(block))
    return sorted((names.index(each.node), each.tier) for each in whole.proxy.index.locate(key))


async def test_a_clear_of_one_tier_leaves_all_copies_elsewhere(whole: Proxied) -> None:
    """Below it and on other nodes; a store right after it stays; clearing all leaves nothing."""
    near, far = whole.nodes
    for block, node, tier in (
        ("fast", near, "gpu0"),
        ("both", near, "gpu0"),
        ("both", near, "cpu0"),
        ("far", far, "gpu0"),
    ):
        await node.store(block, tier=tier)
    await whole.settle()

    first = await whole.proxy.clear({near.node.node_id: ["gpu0"]})
    await near.store("after", tier="gpu0")
    await whole.settle()
    after_first = {block: tiers_of(whole, block) for block in ("fast", "both", "far", "after")}
    await whole.are_known()
    found = await whole.look_up("fast", "both", "far", "after")
    second = await whole.proxy.clear()
    await whole.settle()

    assert first.complete
    assert second.complete
    assert after_first == {
        "fast": [],
        "both": [(0, "cpu0")],
        "far": [(1, "gpu0")],
        "after": [(0, "gpu0")],
    }
    assert found == ["MISS", "HIT", "HIT", "HIT"]
    assert await whole.look_up("fast", "both", "far", "after") == ["MISS"] * 4
    await whole.are_known()


async def test_what_leaves_one_tier_is_found_and_loaded_from_the_other(whole: Proxied) -> None:
    """The primary loses its copy in the faster tier, then in both; the secondary still gives it."""
    near, far = whole.nodes
    for node in whole.nodes:
        await node.store("block")
    await near.store("block", tier="gpu0")
    await whole.settle()
    before = tiers_of(whole, "block")

    await near.client.clear("gpu0")
    await whole.settle()
    between = tiers_of(whole, "block"), (await whole.find("block")).sources
    await near.client.clear("cpu0")
    await whole.settle()
    last = tiers_of(whole, "block"), (await whole.find("block")).sources

    assert before == [(0, "cpu0"), (0, "gpu0"), (1, "cpu0")]
    assert between == ([(0, "cpu0"), (1, "cpu0")], (0,))
    assert last == ([(1, "cpu0")], (1,))
    assert await whole.load("block") == payloads("block")
    assert whole.told(far) == [("stored", "cpu0", block_hash("block"))]


@pytest.mark.parametrize("cleared", [0, 1], ids=["the primary", "the secondary"])
async def test_one_node_that_is_cleared_costs_the_other_nothing(
    whole: Proxied, cleared: int
) -> None:
    """A thousand blocks each, two hundred of them in common: ten fresh ones are all it has then."""
    for number, node in enumerate(whole.nodes):
        for first in range(0, 1000, 100):
            own = [(number if step < 800 else "common", step) for step in range(first, first + 100)]
            await node.store(*own)
    fresh = [("fresh", step) for step in range(10)]
    one, other = whole.nodes[cleared], whole.nodes[1 - cleared]
    await whole.settle()
    kept = whole.known(other)

    await whole.proxy.clear({one.endpoint: ["gpu0", "cpu0"]})
    await one.store(*fresh)
    await whole.settle()

    assert whole.known(one) == await one.held() == hash_set(fresh)
    assert whole.known(other) == await other.held() == kept
    assert len(kept) == 1000
    common = await whole.find(("common", 800))
    assert common.sources == (1 - cleared,)
