"""A block that leaves one tier of a node is still found in the others."""

from kvtier.client import BlockKey
from kvtier.v1.result_pb2 import LookupResult

from .conftest import Connect, Serve
from .following import following
from .support import Serving, block_hash, blocks_of, cpu_tier, gpu_tier, payloads, words
from .viewing import proxying, watching

BOTH = [gpu_tier(1), cpu_tier(4)]


async def evict_from_the_faster(node: Serving) -> None:
    """Put a block into both tiers, and push it out of the first."""
    for tier in ("gpu0", "cpu0"):
        await node.store("A", tier=tier)
    await node.store("B", tier="gpu0")


def key(node: Serving, block: object) -> BlockKey:
    return BlockKey(node.namespace, 0, b"", block_hash(block))


async def test_one_removal_is_told_and_it_names_its_tier(serve: Serve) -> None:
    """The copy in the slower tier is neither removed nor told of."""
    node = await serve(*BOTH)
    async with following(node.endpoint) as follower:
        await evict_from_the_faster(node)
        await follower.settle(node.client)

    removed = [told for told in follower.fold.told if told.what == "removed"]
    assert [(told.tier, told.block_hash, told.reason) for told in removed] == [
        ("gpu0", block_hash("A"), "EVICTED")
    ]
    held = {(key.tier, key.block_hash) for key in follower.fold.view}
    assert held == {("cpu0", block_hash("A")), ("gpu0", block_hash("B"))}
    assert await node.look_up("A") == ["HIT"]
    assert await node.load("A") == payloads("A")


async def test_an_index_places_it_where_it_still_is(serve: Serve) -> None:
    """The removal takes one place away and leaves the other."""
    node = await serve(*BOTH)
    name = node.node.node_id
    async with watching(node.client) as view:
        for tier in ("gpu0", "cpu0"):
            await node.store("A", tier=tier)
        await view.settle(node.client)
        before = view.index.locate(key(node, "A"))
        await node.store("B", tier="gpu0")
        await view.settle(node.client)
        after = view.index.locate(key(node, "A"))

    assert set(before) == {(name, "gpu0"), (name, "cpu0")}
    assert after == ((name, "cpu0"),)


async def test_a_proxy_finds_it_on_a_secondary(serve: Serve, connect: Connect) -> None:
    """Its mirror goes by the tier too, so that a lookup still hits."""
    primary, secondary = await serve(*BOTH), await serve(*BOTH)
    async with proxying(primary.client, [secondary.client]) as (proxy, view):
        await evict_from_the_faster(secondary)
        await view.settle(secondary.client)

        (found,) = await proxy.lookup(secondary.namespace, [blocks_of("A")])

    assert words(LookupResult, found.results) == ["HIT"]
    assert found.sources == (1,)
