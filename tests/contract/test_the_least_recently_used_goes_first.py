"""A write is a use, and so is whatever reads or names a block; looking is not."""

from collections.abc import Awaitable, Callable

import pytest

from .conftest import Follow, Serve
from .support import ANY_TIER, MakeTier, Serving, block_hash, blocks_of, payloads, run
from .ways import Store

Use = Callable[[Serving, str], Awaitable[object]]


async def load(node: Serving, block: str) -> None:
    answer = await node.client.prepare_load(ANY_TIER, node.namespace, [blocks_of(block)])
    await node.client.complete_load(answer.lease)


async def touch(node: Serving, block: str) -> object:
    return await node.client.touch(node.namespace, [blocks_of(block)])


async def offer_in_steps(node: Serving, block: str) -> None:
    answer = await node.client.prepare_store(ANY_TIER, node.namespace, [run(block)])
    await node.client.complete_store(answer.lease)


async def offer_in_one_call(node: Serving, block: str) -> None:
    await node.store(block, tier=ANY_TIER)


async def look(node: Serving, block: str) -> object:
    return await node.look_up(block)


async def describe(node: Serving, block: str) -> object:
    return await node.client.describe_block(node.namespace, 0, b"", block_hash(block))


async def enumerate_all(node: Serving, block: str) -> object:
    return await node.held(ANY_TIER)


USES: dict[str, Use] = {
    "loaded": load,
    "touched": touch,
    "offered again in steps": offer_in_steps,
    "offered again in one call": offer_in_one_call,
}
LOOKS: dict[str, Use] = {"looked up": look, "described": describe, "listed": enumerate_all}


async def removed_by_two_more(
    serve: Serve, follow: Follow, any_tier: MakeTier, store: Store, use: Use
) -> list[bytes]:
    """Fill a tier with A to D, use A, write E and F; return what left, in order."""
    node = await serve(any_tier(4))
    follower = await follow(node)

    async def write(block: str) -> None:
        await store(node.client, ANY_TIER, node.namespace, [run(block)], payloads(block))

    for block in "ABCD":
        await write(block)
    await use(node, "A")
    await write("E")
    await write("F")
    assert (await node.tier(ANY_TIER)).counters.evicted == 2
    return [each.block_hash for each in await follower.news() if each.what == "removed"]


@pytest.mark.parametrize("use", USES.values(), ids=USES)
async def test_neither_a_fresh_block_nor_a_used_one_goes_before_older_ones(
    serve: Serve, follow: Follow, any_tier: MakeTier, store: Store, use: Use
) -> None:
    """With A used after D was written, B goes and then C; never the new E, and never A."""
    removed = await removed_by_two_more(serve, follow, any_tier, store, use)

    assert removed == [block_hash("B"), block_hash("C")]


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
async def test_looking_at_a_block_is_no_use_of_it(
    serve: Serve, follow: Follow, any_tier: MakeTier, store: Store, look: Use
) -> None:
    """A was only looked at: it is the oldest and goes first."""
    removed = await removed_by_two_more(serve, follow, any_tier, store, look)

    assert removed == [block_hash("A"), block_hash("B")]


async def test_a_completion_is_no_use(serve: Serve, follow: Follow, any_tier: MakeTier) -> None:
    """A block is as recent as its offer, however late it was completed."""
    node = await serve(any_tier(2))
    early = await node.client.prepare_store(ANY_TIER, node.namespace, [run("A")])
    await node.store("B", tier=ANY_TIER)
    await node.client.write_blocks(early.lease, {0: payloads("A")[0]}, [64])
    await node.client.complete_store(early.lease)
    follower = await follow(node)

    await node.store("C", tier=ANY_TIER)

    removed = [each.block_hash for each in await follower.news() if each.what == "removed"]
    assert removed == [block_hash("A")]


@pytest.mark.parametrize("use", ["touch", "load", "offer"])
async def test_a_use_counts_in_every_tier_of_the_node(serve: Serve, use: str) -> None:
    """A block that two tiers hold is kept in both when it is named for one of them."""
    tiers = [
        {"name": name, "medium": "cpu", "capacity": 128, "slot_bytes": 64} for name in ("t0", "t1")
    ]
    node = await serve(*tiers)
    for tier in ("t0", "t1"):
        await node.store("A", tier=tier)
        await node.store("B", tier=tier)

    match use:
        case "touch":
            await node.client.touch(node.namespace, [blocks_of("A")])
        case "load":
            answer = await node.client.prepare_load("t0", node.namespace, [blocks_of("A")])
            await node.client.complete_load(answer.lease)
        case "offer":
            await node.client.prepare_store("t0", node.namespace, [run("A")])
    for tier in ("t0", "t1"):
        await node.store("C", tier=tier)

    assert [await node.load("A", "B", tier=tier) for tier in ("t0", "t1")] == [
        [*payloads("A"), None]
    ] * 2
