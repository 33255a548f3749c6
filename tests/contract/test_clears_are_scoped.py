"""A clear empties one tier, or one namespace in it, for followers as for the node itself."""

import pytest

from kvtier.client import AbortedError

from .conftest import Serve
from .folding import listed
from .following import following
from .support import (
    block_hash,
    blocks_of,
    cpu_tier,
    gpu_tier,
    hash_set,
    namespace,
    payload,
    payloads,
    run,
)


async def test_a_clear_leaves_the_copies_of_other_tiers(serve: Serve) -> None:
    """What a slower tier, or another node, holds too stays known there."""
    node = await serve(gpu_tier(8), cpu_tier(8))
    remote = await serve(cpu_tier(8))
    await remote.store("far")
    await node.store("near", "both", tier="gpu0")
    await node.store("near", "both", tier="cpu0")
    await node.client.delete(node.namespace, [blocks_of("near")], tiers=["cpu0"])
    async with following(node.endpoint) as here, following(remote.endpoint) as there:
        await node.client.clear("gpu0")
        await here.settle(node.client)
        after_one = dict(here.fold.view)
        assert after_one == await listed(node.client)

        for tier in ("gpu0", "cpu0"):
            await node.client.clear(tier)
        await here.settle(node.client)
        await there.settle(remote.client)

    assert [(key.tier, key.block_hash) for key in after_one] == [("cpu0", block_hash("both"))]
    assert here.fold.view == {}
    assert [(each.what, each.tier) for each in here.fold.told] == [
        ("cleared", "gpu0"),
        ("cleared", "cpu0"),
    ]
    assert [key.block_hash for key in there.fold.view] == [block_hash("far")]


async def test_a_clear_has_its_place_among_the_stores(serve: Serve) -> None:
    """A store right before a clear goes with it, one right after stays, at every follower."""
    node = await serve(cpu_tier(8))
    async with following(node.endpoint) as follower:
        for step in range(5):
            await node.store(("before", step))
            await node.client.clear("cpu0")
            await node.store(("after", step))
            await follower.settle(node.client)
            assert follower.fold.view == await listed(node.client)
            assert hash_set([("after", step)]) == {k.block_hash for k in follower.fold.view}

    what = [each.what for each in follower.fold.told]
    assert what == ["stored", "cleared", "stored"] * 5
    assert [each.sequence for each in follower.fold.told] == list(range(1, 16))


async def test_a_clear_of_one_namespace_leaves_the_others(serve: Serve) -> None:
    """The event says which namespace went, and a follower of another one sees none of it."""
    node = await serve(cpu_tier(8))
    other = await node.client.register_namespace(namespace("qwen"))
    await node.store("a", "b")
    await node.client.store("cpu0", other, [run("a", "c")], payloads("a", "c"))
    async with (
        following(node.endpoint) as everything,
        following(node.endpoint, namespaces=[other]) as filtered,
    ):
        await node.client.clear("cpu0", node.namespace)
        await everything.settle(node.client)
        await filtered.settle(node.client)

    assert everything.fold.view == filtered.fold.view == await listed(node.client)
    assert {key.namespace for key in everything.fold.view} == {other}
    assert not filtered.batches


async def test_a_clear_of_everything_passes_every_namespace_filter(serve: Serve) -> None:
    """A follower of one namespace must know when all of them are gone."""
    node = await serve(cpu_tier(8))
    await node.store("a", "b")
    async with following(node.endpoint, namespaces=[node.namespace]) as follower:
        await node.client.clear("cpu0")
        await follower.settle(node.client)

    assert follower.fold.view == {}
    assert [each.what for each in follower.fold.told] == ["cleared"]


async def test_a_clear_while_blocks_are_written_spares_none_of_them(serve: Serve) -> None:
    """A store that a clear overtook never becomes readable, and is never told."""
    node = await serve(cpu_tier(8))
    await node.store("old")
    async with following(node.endpoint) as follower:
        prepared = await node.client.prepare_store("cpu0", node.namespace, [run("new")])
        await node.client.write_blocks(prepared.lease, {0: payload("new")}, [64])
        await node.client.clear("cpu0")
        with pytest.raises(AbortedError, match="clear"):
            await node.client.complete_store(prepared.lease)
        await follower.settle(node.client)

    assert follower.fold.view == await listed(node.client) == {}
    assert [each.what for each in follower.fold.told] == ["cleared"]
