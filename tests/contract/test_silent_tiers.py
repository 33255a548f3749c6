"""A tier without events stores as any other, says that it is silent, and tells nothing."""

from kvtier.client import Quality
from kvtier.v1.event_service_pb2 import TierState

from .conftest import Serve
from .following import following
from .support import blocks_of, cpu_tier, gpu_tier, hash_set, payload
from .viewing import watching

READY, SILENT = TierState.TIER_STATE_READY, TierState.TIER_STATE_SILENT


async def test_a_silent_tier_stores_and_tells_nothing(serve: Serve) -> None:
    """Its stores, evictions, deletes and clears take no place in the log."""
    node = await serve(gpu_tier(4), cpu_tier(2, events=False))
    async with following(node.endpoint) as follower:
        await node.store(1, 2)
        await node.store(3)
        await node.client.delete(node.namespace, [blocks_of(1)])
        await node.client.clear("cpu0")
        await node.store(5, 6)
        await node.store(4, tier="gpu0")
        await follower.settle(node.client)
        async with following(node.endpoint) as late:
            assert late.fold.view == follower.fold.view

    assert {(key.tier, key.block_hash) for key in follower.fold.view} == {
        ("gpu0", block) for block in hash_set([4])
    }
    assert [(each.sequence, each.tier) for each in follower.fold.told] == [(1, "gpu0")]
    assert await node.held("cpu0") == hash_set([5, 6])
    loaded = await node.client.load("cpu0", node.namespace, [blocks_of(5, 6)])
    assert list(loaded.payloads) == [payload(5), payload(6)]


async def test_a_silent_tier_is_named_silent_everywhere(serve: Serve) -> None:
    """The stream's first messages and the list of tiers say the same of each tier."""
    node = await serve(gpu_tier(4), cpu_tier(4, events=False))
    async with following(node.endpoint) as follower:
        pass

    told = {m.state.tier: m.state.tier_state for m in follower.messages if m.HasField("state")}
    assert told == {"gpu0": READY, "cpu0": SILENT}
    assert {tier.name: tier.state for tier in await node.client.list_tiers()} == told
    before = follower.kinds[: follower.kinds.index("synced")]
    assert before == ["reset", "state", "state", "namespace"]


async def test_an_index_does_not_pretend_to_know_a_silent_tier(serve: Serve) -> None:
    """What is known of it is UNKNOWN, whatever is known of the node's other tiers."""
    node = await serve(gpu_tier(4), cpu_tier(4, events=False))
    await node.store(1)
    await node.store(2, tier="gpu0")
    async with watching(node.client) as view:
        await view.settle(node.client)
        index, name = view.index, node.node.node_id

        assert index.quality(name, "gpu0") == Quality.EXACT
        assert index.quality(name, "cpu0") == Quality.UNKNOWN
        assert {key.tier for key in view.held(name)} == {"gpu0"}


async def test_a_node_of_silent_tiers_only_can_be_followed(serve: Serve) -> None:
    """Its stream has states, an empty snapshot and heartbeats."""
    node = await serve(cpu_tier(4, events=False))
    async with following(node.endpoint) as follower:
        await node.store(1, 2)
        await follower.until(lambda: follower.kinds.count("progress") >= 2)

    assert follower.fold.view == {}
    assert follower.fold.through == 0
