"""A store that was acknowledged is found, by everyone, at once, and the counters agree."""

import pytest

from kvtier.v1.result_pb2 import WriteResult

from .conftest import Connect, Follow, Serve
from .folding import listed
from .support import (
    ANY_TIER,
    MakeTier,
    blocks_of,
    cpu_tier,
    gpu_tier,
    hash_set,
    payloads,
    run,
    words,
)
from .ways import Store

MOST = 64


@pytest.mark.parametrize("sizes", [range(1, 33), (33, 47, 63, 64)], ids=["1-32", "33-64"])
async def test_every_block_of_an_acknowledged_store_is_a_hit(
    serve: Serve, follow: Follow, any_tier: MakeTier, store: Store, sizes: range
) -> None:
    """Chains of any length, the last block too: looked up, told and counted as stored."""
    node = await serve(any_tier(sum(sizes)))
    follower = await follow(node)
    stored = 0

    for size in sizes:
        chain = [(size, place) for place in range(size)]
        report = await store(node.client, ANY_TIER, node.namespace, [run(*chain)], payloads(*chain))
        stored += words(WriteResult, report.results).count("STORED")
        answer = await node.client.lookup(node.namespace, [blocks_of(*chain)], include_blocks=True)
        assert list(answer.chains[0].prefix_lengths) == [size]
        assert set(answer.chains[0].results) == {1}

    await follower.settle()
    tier = await node.tier(ANY_TIER)
    assert stored == sum(sizes) == tier.counters.stored == tier.ready_blocks
    assert follower.fold.view == await listed(node.client)
    assert len(follower.fold.told) == stored


async def test_a_growing_chain_is_found_to_its_end(
    serve: Serve, any_tier: MakeTier, store: Store
) -> None:
    """Each turn offers the whole chain again with more at its end; all of it is found each time."""
    node = await serve(any_tier(MOST))
    chain: list[int] = []

    for turn in range(1, 11):
        chain += range(100 * turn, 100 * turn + turn)
        await store(
            node.client,
            ANY_TIER,
            node.namespace,
            [run(*chain)],
            payloads(*chain),
            request_id="conversation",
        )
        assert await node.look_up(*chain) == ["HIT"] * len(chain)

    assert (await node.tier(ANY_TIER)).counters.stored == len(chain) == 55
    assert await node.load(*chain, tier=ANY_TIER) == payloads(*chain)


async def test_other_clients_find_what_one_stored(
    serve: Serve, connect: Connect, any_tier: MakeTier, store: Store
) -> None:
    """A client of its own looks up and loads the blocks as soon as the writer has its answer."""
    node = await serve(any_tier(MOST))
    writer, reader = await connect(node), await connect(node)
    chain = [("other", place) for place in range(MOST)]

    await store(writer, ANY_TIER, node.namespace, [run(*chain)], payloads(*chain))
    found = await reader.lookup(node.namespace, [blocks_of(*chain)])
    read = await reader.load(ANY_TIER, node.namespace, [blocks_of(*chain)])

    assert list(found.chains[0].prefix_lengths) == [MOST]
    assert list(read.payloads) == payloads(*chain)


async def test_each_tier_that_announces_a_block_has_it(
    serve: Serve, follow: Follow, store: Store
) -> None:
    """Stored in both tiers of a node, by one store each, a chain is a hit in both."""
    node = await serve(gpu_tier(MOST), cpu_tier(MOST))
    follower = await follow(node)
    chain = [("both", place) for place in range(MOST)]

    for tier in ("gpu0", "cpu0"):
        await store(node.client, tier, node.namespace, [run(*chain)], payloads(*chain))

    answer = await node.client.lookup(node.namespace, [blocks_of(*chain)], include_blocks=True)
    assert list(answer.chains[0].prefix_lengths) == [MOST, MOST]
    assert list(answer.chains[0].tier_masks) == [0b11] * MOST
    await follower.settle()
    for tier in ("gpu0", "cpu0"):
        announced = {key.block_hash for key in follower.fold.view if key.tier == tier}
        assert announced == await node.held(tier) == hash_set(chain)
        assert await node.load(*chain, tier=tier) == payloads(*chain)
        assert (await node.tier(tier)).counters.stored == MOST
