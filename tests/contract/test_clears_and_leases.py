"""What a clear does to blocks that are pinned, and to blocks that are being written."""

import pytest

from kvtier.client import AbortedError, FailedPreconditionError
from kvtier.v1.result_pb2 import LeaseResult

from .conftest import Follow, Serve
from .folding import listed
from .support import (
    ANY_TIER,
    BLOCK_BYTES,
    MakeTier,
    blocks_of,
    cpu_tier,
    gpu_tier,
    hash_set,
    namespace,
    payload,
    payloads,
    run,
    words,
)


async def test_a_clear_over_pinned_blocks_changes_nothing(
    serve: Serve, follow: Follow, any_tier: MakeTier
) -> None:
    """It is refused with how many are pinned; also blocks that are being written live on."""
    node = await serve(any_tier(4))
    await node.store("A", "B", "C", tier=ANY_TIER)
    await node.client.prepare_load(ANY_TIER, node.namespace, [blocks_of("A", "B")])
    writer = await node.client.prepare_store(ANY_TIER, node.namespace, [run("D")])
    follower = await follow(node)
    before = await node.state(ANY_TIER)

    with pytest.raises(FailedPreconditionError) as refused:
        await node.client.clear(ANY_TIER)

    assert refused.value.reason == "BLOCKS_LEASED"
    assert refused.value.metadata["leased_blocks"] == "2"
    assert await node.state(ANY_TIER) == before
    assert await follower.news() == []
    await node.client.write_blocks(writer.lease, {0: payload("D")}, [BLOCK_BYTES])
    await node.client.complete_store(writer.lease)
    assert await node.load(*"ABCD", tier=ANY_TIER) == payloads(*"ABCD")


async def test_with_force_pinned_blocks_go_and_their_readers_finish(
    serve: Serve, follow: Follow, memory_tier: MakeTier
) -> None:
    """One clear is told and no removals; pinned slots drain, and are free with the last lease."""
    node = await serve(memory_tier(3))
    await node.store("A", "B", "C", tier=ANY_TIER)
    pinned = await node.client.prepare_load(ANY_TIER, node.namespace, [blocks_of("A", "B")])
    follower = await follow(node)

    answer = await node.client.clear(ANY_TIER, force=True)
    during = await node.gauges(ANY_TIER)
    read = await node.client.read_blocks(pinned.lease, [BLOCK_BYTES] * 2)
    await node.store("D", tier=ANY_TIER)
    await node.client.complete_load(pinned.lease)

    assert (answer.removed_blocks, answer.ended_leases) == (3, 0)
    assert during == {"draining": 2}
    assert list(read.payloads) == payloads("A", "B")
    assert [each.what for each in await follower.news()] == ["cleared", "stored"]
    assert follower.fold.view == await listed(node.client)
    assert await node.gauges(ANY_TIER) == {"ready": 1}


@pytest.mark.parametrize("force", [False, True])
async def test_a_clear_ends_the_store_leases_in_its_scope(
    serve: Serve, follow: Follow, any_tier: MakeTier, force: bool
) -> None:
    """What is being written there is given back, and its completion is aborted."""
    node = await serve(any_tier(4))
    await node.store("A", tier=ANY_TIER)
    follower = await follow(node)
    leases = [
        (await node.client.prepare_store(ANY_TIER, node.namespace, [run(block)])).lease
        for block in ("written", "only reserved")
    ]
    await node.client.write_blocks(leases[0], {0: payload("written")}, [BLOCK_BYTES])

    answer = await node.client.clear(ANY_TIER, force=force)
    for lease in leases:
        with pytest.raises(AbortedError):
            await node.client.complete_store(lease)
    released = await node.client.release_leases(leases)

    assert (answer.removed_blocks, answer.ended_leases) == (1, 2)
    assert words(LeaseResult, released.results) == ["ENDED"] * 2
    assert [each.what for each in await follower.news()] == ["cleared"]
    assert await node.gauges(ANY_TIER) == {}
    assert (await node.tier(ANY_TIER)).counters.abandoned == 2


async def test_a_clear_of_a_namespace_asks_only_for_its_own_leases(
    serve: Serve, any_tier: MakeTier
) -> None:
    """Pins and writers of another namespace neither stop it nor are ended by it."""
    node = await serve(any_tier(4))
    other = await node.client.register_namespace(namespace("other"))
    for fingerprint in (node.namespace, other):
        await node.client.store(ANY_TIER, fingerprint, [run("A")], payloads("A"))
    await node.client.prepare_load(ANY_TIER, other, [blocks_of("A")])
    kept = await node.client.prepare_store(ANY_TIER, other, [run("B")])
    ended = await node.client.prepare_store(ANY_TIER, node.namespace, [run("B")])

    answer = await node.client.clear(ANY_TIER, node.namespace)
    with pytest.raises(AbortedError):
        await node.client.complete_store(ended.lease)
    await node.client.write_blocks(kept.lease, {0: payload("B")}, [BLOCK_BYTES])
    await node.client.complete_store(kept.lease)

    assert (answer.removed_blocks, answer.ended_leases) == (1, 1)
    assert {key.namespace for key in await listed(node.client)} == {other}
    report = await node.client.load(ANY_TIER, other, [blocks_of("A", "B")])
    assert list(report.payloads) == payloads("A", "B")
    with pytest.raises(FailedPreconditionError):
        await node.client.clear(ANY_TIER, other)


async def test_a_clear_of_one_tier_leaves_the_leases_of_another(serve: Serve) -> None:
    """Pins and writers in a node's other tier go on as if nothing had happened."""
    node = await serve(gpu_tier(2), cpu_tier(2))
    for tier in ("gpu0", "cpu0"):
        await node.store("A", tier=tier)
    await node.client.prepare_load("cpu0", node.namespace, [blocks_of("A")])
    writer = await node.client.prepare_store("cpu0", node.namespace, [run("B")])

    await node.client.clear("gpu0")
    await node.client.write_blocks(writer.lease, {0: payload("B")}, [BLOCK_BYTES])
    await node.client.complete_store(writer.lease)

    assert (await node.held("gpu0"), await node.held("cpu0")) == (set(), hash_set("AB"))
    assert await node.gauges("cpu0") == {"ready": 2, "leased": 1}


async def test_a_clear_of_an_empty_tier_is_harmless(
    serve: Serve, follow: Follow, any_tier: MakeTier
) -> None:
    """There is nothing to remove, and nothing to tell."""
    node = await serve(any_tier(2))
    follower = await follow(node)

    answer = await node.client.clear(ANY_TIER)

    assert (answer.removed_blocks, answer.ended_leases) == (0, 0)
    assert await follower.news() == []
    await node.store("A", tier=ANY_TIER)
    assert await node.load("A", tier=ANY_TIER) == payloads("A")
