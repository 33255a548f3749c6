"""How long a prefix is: up to the first block that is not readable there, whatever comes after."""

from collections.abc import Sequence

import pytest

from kvtier.client import BlockIndex
from kvtier.v1.result_pb2 import LookupResult

from .conftest import Serve
from .support import (
    ANY_TIER,
    MakeTier,
    Serving,
    block_hash,
    blocks_of,
    cpu_tier,
    gpu_tier,
    hash_set,
    payload,
    run,
    words,
)
from .viewing import proxying, watching

CHAIN = ("a", "b", "c", "d")


async def prefixes(node: Serving, *blocks: str) -> tuple[dict[str, int], int]:
    """How long a prefix each tier has, and how long the union of them."""
    answer = await node.client.lookup(node.namespace, [blocks_of(*blocks)])
    (chain,) = answer.chains
    lengths = dict(zip(answer.tiers, chain.prefix_lengths, strict=True))
    return lengths, chain.union_prefix_length


@pytest.mark.parametrize("missing", ["a", "b", "c", "d", "ac", "bd", "abcd", ""])
async def test_a_hole_ends_the_prefix_wherever_it_is(
    serve: Serve, any_tier: MakeTier, missing: str
) -> None:
    """Blocks behind the first missing one do not count, and are still listed and loaded."""
    node = await serve(any_tier(4))
    await node.store(*CHAIN, tier=ANY_TIER)
    if missing:
        await node.client.delete(node.namespace, [blocks_of(*missing)])

    length = min(("abcd".index(letter) for letter in missing), default=4)
    rest = [block for block in CHAIN if block not in missing]
    assert await prefixes(node, *CHAIN) == ({ANY_TIER: length}, length)
    assert await node.look_up(*CHAIN) == ["MISS" if b in missing else "HIT" for b in CHAIN]
    assert await node.held(ANY_TIER) == hash_set(rest)
    for block in rest:
        assert await node.load(block, tier=ANY_TIER) == [payload(block)]


async def test_a_block_that_is_being_written_is_a_hole(serve: Serve, any_tier: MakeTier) -> None:
    """Pending is not readable: the prefix ends before it, and grows once it is complete."""
    node = await serve(any_tier(4))
    await node.store(*CHAIN, tier=ANY_TIER)
    await node.client.delete(node.namespace, [blocks_of("b")])
    writer = await node.client.prepare_store(ANY_TIER, node.namespace, [run("b", after="a")])
    await node.client.write_blocks(writer.lease, {0: payload("b")}, [64])

    before = await prefixes(node, *CHAIN), await node.look_up(*CHAIN)
    await node.client.complete_store(writer.lease)

    assert before == (({ANY_TIER: 1}, 1), ["HIT", "HIT_PENDING", "HIT", "HIT"])
    assert await prefixes(node, *CHAIN) == ({ANY_TIER: 4}, 4)


async def test_tiers_of_one_node_complete_each_other_in_the_union_alone(serve: Serve) -> None:
    """Each tier counts its own blocks; the union counts what one tier or another has."""
    node = await serve(gpu_tier(4), cpu_tier(4))
    await node.store(*CHAIN, tier="gpu0")
    await node.store(*CHAIN, tier="cpu0")
    await node.client.delete(node.namespace, [blocks_of("b", "d")], tiers=["gpu0"])
    await node.client.delete(node.namespace, [blocks_of("a", "d")], tiers=["cpu0"])

    lengths, union = await prefixes(node, *CHAIN)
    async with watching(node.client) as view:
        await view.settle(node.client)
        node_id = (await node.client.get_node()).node_id
        seen = view.index.prefix(node.namespace, 0, b"", [block_hash(b) for b in CHAIN])

    assert (lengths, union) == ({"gpu0": 1, "cpu0": 0}, 3)
    assert seen.tiers == {(node_id, "gpu0"): 1, (node_id, "cpu0"): 0}
    assert seen.nodes == {node_id: 3}


async def test_every_chain_of_a_lookup_ends_at_its_own_hole(
    serve: Serve, any_tier: MakeTier
) -> None:
    """Chains of one call are answered one by one, in order."""
    node = await serve(any_tier(8))
    await node.store(*CHAIN, tier=ANY_TIER)
    await node.store("x", "y", tier=ANY_TIER)
    await node.client.delete(node.namespace, [blocks_of("c")])
    chains = [blocks_of(*CHAIN), blocks_of("x", "y", "z"), blocks_of("z", "x"), blocks_of("a")]

    answer = await node.client.lookup(node.namespace, chains, include_blocks=True)

    assert [list(chain.prefix_lengths) for chain in answer.chains] == [[2], [2], [0], [1]]
    assert words(LookupResult, answer.chains[2].results) == ["MISS", "HIT"]


async def test_nothing_is_stitched_together_over_nodes(serve: Serve) -> None:
    """One node misses b, the other has only b: one and none, and a merged answer says so too."""
    one, two = await serve(cpu_tier(4)), await serve(cpu_tier(4))
    await one.store(*CHAIN)
    await two.store("b", after="a")
    await one.client.delete(one.namespace, [blocks_of("b")])
    ids = [(await node.client.get_node()).node_id for node in (one, two)]

    apart = [await prefixes(node, *CHAIN) for node in (one, two)]
    async with proxying(one.client, [two.client]) as (proxy, view):
        await view.settle(one.client)
        await view.settle(two.client)
        (merged,) = await proxy.lookup(one.namespace, [blocks_of(*CHAIN)])
        seen = index_prefixes(view.index, one.namespace, ids)

    assert apart == [({"cpu0": 1}, 1), ({"cpu0": 0}, 0)]
    assert merged.prefix_lengths == (1, 0)
    assert merged.longest == (0, 1)
    assert merged.sources == (0, 1, 0, 0), "where each block is, on its own"
    assert seen == [1, 0]
    assert await one.held() == hash_set("acd")


def index_prefixes(index: BlockIndex, namespace: bytes, ids: Sequence[str]) -> list[int]:
    nodes = index.prefix(namespace, 0, b"", [block_hash(block) for block in CHAIN]).nodes
    return [nodes[each] for each in ids]
