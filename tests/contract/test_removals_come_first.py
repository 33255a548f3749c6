"""The room that a store takes is seen to be free before the store is seen."""

from .conftest import Serve
from .folding import listed
from .following import following
from .support import (
    ANY_TIER,
    MakeTier,
    block_hash,
    cpu_tier,
    gpu_tier,
    hash_set,
    namespace,
    payloads,
    run,
)
from .ways import Store


async def test_a_block_goes_before_the_one_that_takes_its_room(
    serve: Serve, any_tier: MakeTier, store: Store
) -> None:
    """A full tier that stores on never shows more blocks than it has slots."""
    node = await serve(any_tier(4))
    async with following(node.endpoint) as follower:
        for blocks in (["a", "b", "c", "d"], ["e"], ["f", "g"]):
            await store(node.client, ANY_TIER, node.namespace, [run(*blocks)], payloads(*blocks))
        await follower.settle(node.client)

    fold = follower.fold
    assert fold.most[ANY_TIER] == 4
    assert fold.view == await listed(node.client)
    changes = [(each.what, each.block_hash) for each in fold.told if each.sequence > 1]
    assert changes == [
        ("removed", block_hash("d")),
        ("stored", block_hash("e")),
        ("removed", block_hash("c")),
        ("removed", block_hash("b")),
        ("stored", block_hash("f")),
        ("stored", block_hash("g")),
    ]


async def test_every_victim_is_told_and_nothing_else(serve: Serve) -> None:
    """What an offer's answer names as evicted is what followers see leave, with the reason."""
    node = await serve(cpu_tier(4))
    await node.store(1, 2, 3, 4)
    async with following(node.endpoint) as follower:
        report = await node.client.store("cpu0", node.namespace, [run(5, 6, 7)], payloads(5, 6, 7))
        await follower.settle(node.client)

    named = b"".join(each.blocks.block_hashes for each in report.evicted)
    removed = [each for each in follower.fold.told if each.what == "removed"]
    assert named == b"".join(each.block_hash for each in removed)
    assert {each.reason for each in removed} == {"EVICTED"}
    assert hash_set([4, 3, 2]) == {each.block_hash for each in removed}


async def test_a_tier_of_mixed_blocks_never_shows_too_many(serve: Serve) -> None:
    """Groups, scopes and namespaces share a tier's room, and its limit holds over all of them."""
    node = await serve(cpu_tier(8), gpu_tier(3))
    other = await node.client.register_namespace(namespace("qwen"))
    async with following(node.endpoint) as follower:
        for step in range(40):
            offer = [
                run((step, 0), (step, 1), group=step % 2, scope=b"s" * (step % 3)),
                run((step, 2)),
            ]
            where = node.namespace if step % 4 else other
            tier = "gpu0" if step % 3 == 0 else "cpu0"
            blocks = payloads((step, 0), (step, 1), (step, 2))
            await node.client.store(tier, where, offer, blocks)
        await follower.settle(node.client)

    assert follower.fold.most == {"cpu0": 8, "gpu0": 3}
    assert follower.fold.view == await listed(node.client)
