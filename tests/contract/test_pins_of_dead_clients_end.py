"""A client that dies holds its blocks for the time of its leases, and no longer."""

from contextlib import AsyncExitStack

import pytest

from kvtier.client import ExhaustedError

from .conftest import Connect, Follow, Serve
from .support import ANY_TIER, MakeTier, blocks_of, hash_set, hashes, payloads, run
from .vanishing import Job, vanishing
from .ways import Store

CAPACITY = 100
OLD, NEW = range(CAPACITY), range(CAPACITY, 2 * CAPACITY)
DEFAULT_TTL = 30


@pytest.mark.parametrize("what", ["pin", "look"])
async def test_the_pins_of_killed_clients_end_with_their_time(
    serve: Serve, follow: Follow, any_tier: MakeTier, store: Store, what: str
) -> None:
    """Clients that pin everything and are killed block a tier until then, and nothing stays."""
    node = await serve(any_tier(CAPACITY))
    await node.store(*OLD, tier=ANY_TIER)
    follower = await follow(node)
    job = Job(what, node.endpoint, ANY_TIER, node.namespace.hex(), hashes(*OLD).hex())
    async with AsyncExitStack() as stack:
        for _ in range(2):
            process = await stack.enter_async_context(vanishing(job))
            process.kill()
            await process.wait()

    held = await node.gauges(ANY_TIER), (await node.client.get_node()).leases
    with pytest.raises(ExhaustedError) as refused:
        await store(node.client, ANY_TIER, node.namespace, [run(*NEW)], payloads(*NEW))
    node.clock.advance(DEFAULT_TTL)
    free = await node.gauges(ANY_TIER), (await node.client.get_node()).leases
    await store(node.client, ANY_TIER, node.namespace, [run(*NEW)], payloads(*NEW))

    assert held == ({"ready": 100, "leased": 100}, 2)
    assert refused.value.metadata["leased_blocks"] == "100"
    assert free == ({"ready": 100}, 0)
    news = await follower.news()
    assert {each.block_hash for each in news if each.what == "removed"} == hash_set(OLD)
    assert await node.held(ANY_TIER) == hash_set(NEW)
    assert (await node.gauges(ANY_TIER)) == {"ready": 100}


async def test_pins_never_pile_up(serve: Serve, connect: Connect, any_tier: MakeTier) -> None:
    """However many clients look up, pin and leave, the tier takes new blocks as before."""
    node = await serve(any_tier(8))
    for round_ in range(10):
        blocks = [(round_, place) for place in range(8)]
        await node.store(*blocks, tier=ANY_TIER)
        client = await connect(node)
        await client.lookup(node.namespace, [blocks_of(*blocks)])
        await client.prepare_load(ANY_TIER, node.namespace, [blocks_of(*blocks)], ttl=5)
        await client.close()
        node.clock.advance(5)

    assert await node.held(ANY_TIER) == hash_set(blocks)
    assert await node.gauges(ANY_TIER) == {"ready": 8}
    assert (await node.tier(ANY_TIER)).counters.refused == 0


async def test_a_live_client_keeps_its_pins_by_renewing_them(
    serve: Serve, any_tier: MakeTier
) -> None:
    """Renewed in time a pin lasts as long as its owner wants, and ends when it stops."""
    node = await serve(any_tier(1))
    await node.store("kept", tier=ANY_TIER)
    pinned = await node.client.prepare_load(ANY_TIER, node.namespace, [blocks_of("kept")], ttl=2)

    for _ in range(5):
        node.clock.advance(1.5)
        await node.client.renew_leases([pinned.lease], ttl=2)
        with pytest.raises(ExhaustedError):
            await node.store("other", tier=ANY_TIER)
    node.clock.advance(2)
    await node.store("other", tier=ANY_TIER)

    assert await node.load("kept", "other", tier=ANY_TIER) == [None, *payloads("other")]
