"""Blocks that somebody copies or moves between the tiers of a node."""

import pytest

from kvtier.client import InvalidArgumentError, NotFoundError, UnavailableError
from kvtier.v1.event_service_pb2 import BlockStored
from kvtier.v1.listing_pb2 import DescribeBlockResponse

from .conftest import Follow, Serve
from .copying import copy_blocks, nothing_is_held, spoil
from .folding import Told
from .support import (
    BLOCK_BYTES,
    TOKENS,
    Serving,
    block_hash,
    blocks_of,
    cpu_tier,
    gpu_tier,
    hash_set,
    namespace,
    payloads,
    run,
)


@pytest.fixture(name="node")
async def _node(serve: Serve) -> Serving:
    """A node with two tiers of eight blocks."""
    return await serve(gpu_tier(8), cpu_tier(8))


@pytest.mark.parametrize(("source", "target"), [("cpu0", "gpu0"), ("gpu0", "cpu0")])
async def test_a_copy_is_readable_in_both_tiers(node: Serving, source: str, target: str) -> None:
    """Up or down, the source keeps its copy, and both load byte for byte."""
    await node.store(1, 2, 3, tier=source)

    copied = await copy_blocks(node, run(1, 2, 3), source=source, to=target)

    assert copied.results == ["COPIED"] * 3
    assert copied.bytes == 3 * BLOCK_BYTES
    assert await node.load(1, 2, 3, tier=source) == payloads(1, 2, 3)
    assert await node.load(1, 2, 3, tier=target) == payloads(1, 2, 3)
    nothing_is_held(node)


async def test_every_block_has_a_result_of_its_own(node: Serving) -> None:
    """One block that is missing, present, being written or corrupt does not touch the others."""
    await node.store("good", "bad", "there", "pending", "last")
    await node.store("there", tier="gpu0")
    held = await node.client.prepare_store("gpu0", node.namespace, [run("pending")])
    spoil(node, "bad", "cpu0")

    copied = await copy_blocks(
        node, run("good", "bad", "absent", "there", "pending", "last"), source="cpu0", to="gpu0"
    )

    assert copied.results == ["COPIED", "CORRUPT", "MISS", "PRESENT", "PENDING", "COPIED"]
    assert copied.bytes == 2 * BLOCK_BYTES
    assert await node.load("good", "last", tier="gpu0") == payloads("good", "last")
    await node.client.complete_store(held.lease, failed=True)
    assert await node.held("gpu0") == hash_set(["good", "there", "last"])
    nothing_is_held(node)


async def test_a_corrupt_source_drops_the_block_and_says_so(node: Serving, follow: Follow) -> None:
    """What cannot be read is removed from the source, and never seen in the target."""
    await node.store(1, 2, 3)
    follower = await follow(node)
    spoil(node, 2, "cpu0")

    await copy_blocks(node, run(1, 2, 3), source="cpu0", to="gpu0")

    told = {(each.what, each.tier, each.block_hash, each.reason) for each in await follower.news()}
    assert told == {
        ("removed", "cpu0", block_hash(2), "CORRUPT"),
        ("stored", "gpu0", block_hash(1), ""),
        ("stored", "gpu0", block_hash(3), ""),
    }
    assert await node.held("cpu0") == hash_set([1, 3])


async def test_a_duplicate_is_answered_for_every_place(node: Serving) -> None:
    """A block named twice, in one run or in two, is copied once."""
    await node.store(1, 2)

    copied = await copy_blocks(node, run(1, 2), run(1, 1, "absent"), source="cpu0", to="gpu0")

    assert copied.results == ["COPIED", "COPIED", "COPIED", "COPIED", "MISS"]
    assert copied.bytes == 2 * BLOCK_BYTES
    assert (await node.tier("gpu0")).counters.stored == 2


async def test_a_full_target_evicts_what_is_oldest(node: Serving) -> None:
    """Room for a copy is taken as for a store."""
    for block in range(8):
        await node.store(block, tier="gpu0")
    await node.store("new", "newer")

    copied = await copy_blocks(node, run("new", "newer"), source="cpu0", to="gpu0")

    assert copied.results == ["COPIED"] * 2
    assert await node.held("gpu0") == hash_set([*range(2, 8), "new", "newer"])


@pytest.mark.parametrize("move", [False, True])
async def test_a_copy_evicts_nothing_that_the_same_call_brought(serve: Serve, move: bool) -> None:
    """What finds no room says so and stays where it is; what was copied is there."""
    node = await serve(cpu_tier(12, "cpu0"), cpu_tier(4, "cpu1"))
    await node.store(*range(12))

    copied = await copy_blocks(node, run(*range(12)), source="cpu0", to="cpu1", move=move)

    there, here = await node.held("cpu1"), await node.held("cpu0")
    assert copied.results == ["COPIED"] * 4 + ["NO_ROOM"] * 8
    assert there == hash_set(range(4))
    assert here == hash_set(range(4 if move else 0, 12))


async def test_a_target_full_of_leased_blocks_has_no_room(node: Serving) -> None:
    """Blocks under leases stay, the copy is told NO_ROOM, and works when they are let go."""
    await node.store(*range(8), tier="gpu0")
    await node.store("new")
    lease = await node.client.prepare_load("gpu0", node.namespace, [blocks_of(*range(8))])

    refused = await copy_blocks(node, run("new", "absent"), source="cpu0", to="gpu0")
    await node.client.complete_load(lease.lease)
    again = await copy_blocks(node, run("new"), source="cpu0", to="gpu0")

    assert refused.results == ["NO_ROOM", "MISS"]
    assert again.results == ["COPIED"]
    nothing_is_held(node)


@pytest.mark.parametrize(
    ("source", "target", "reason"), [("cpu0", "gpu0", "PROMOTED"), ("gpu0", "cpu0", "DEMOTED")]
)
async def test_a_move_tells_both_ends_in_one_batch(
    node: Serving, follow: Follow, source: str, target: str, reason: str
) -> None:
    """A follower never sees a moved block in neither tier, and is told why it left."""
    await node.store(1, 2, tier=source)
    follower = await follow(node)

    moved = await copy_blocks(node, run(1, 2), source=source, to=target, move=True)

    news = await follower.news()
    assert moved.results == ["COPIED"] * 2
    assert len({each.sequence for each in news}) == 1
    assert [each[1:] for each in news] == [
        *[Told(0, "removed", source, block_hash(block), reason)[1:] for block in (1, 2)],
        *[Told(0, "stored", target, block_hash(block))[1:] for block in (1, 2)],
    ]
    assert (await node.held(source), await node.held(target)) == (set(), hash_set([1, 2]))
    assert await node.load(1, 2, tier=target) == payloads(1, 2)
    nothing_is_held(node)


async def test_a_move_of_what_is_there_already_only_leaves_the_source(node: Serving) -> None:
    """The target keeps its own copy, and the source lets go of its."""
    await node.store(1)
    await node.store(1, tier="gpu0")

    moved = await copy_blocks(node, run(1), source="cpu0", to="gpu0", move=True)

    assert moved.results == ["PRESENT"]
    assert (await node.held("cpu0"), await node.held("gpu0")) == (set(), hash_set([1]))


async def test_a_leased_block_is_copied_and_not_moved(node: Serving) -> None:
    """What somebody loads stays where it is."""
    await node.store(1, 2)
    lease = await node.client.prepare_load("cpu0", node.namespace, [blocks_of(1)])

    moved = await copy_blocks(node, run(1, 2), source="cpu0", to="gpu0", move=True)

    assert moved.results == ["COPIED"] * 2
    assert (await node.held("cpu0"), await node.held("gpu0")) == (hash_set([1]), hash_set([1, 2]))
    await node.client.complete_load(lease.lease)
    nothing_is_held(node)


async def test_two_full_tiers_change_blocks(serve: Serve, follow: Follow) -> None:
    """A move up into a full tier sends its oldest down; neither tier shows more than it holds."""
    node = await serve(gpu_tier(4, on_evict="cpu0", free_target=0), cpu_tier(4))
    await node.store(*range(4), tier="gpu0")
    await node.store("a", "b", "c", "d")
    follower = await follow(node)

    moved = await copy_blocks(node, run("a", "b"), source="cpu0", to="gpu0", move=True)

    assert moved.results == ["COPIED"] * 2
    assert await node.held("gpu0") == hash_set([0, 1, "a", "b"])
    assert await node.held("cpu0") == hash_set([2, 3, "c", "d"])
    told = {(each.tier, each.what, each.reason) for each in await follower.news()}
    assert told == {
        ("cpu0", "removed", "PROMOTED"),
        ("gpu0", "removed", "DEMOTED"),
        ("gpu0", "stored", ""),
        ("cpu0", "stored", ""),
    }
    assert max(follower.fold.most.values()) == 4
    nothing_is_held(node)


async def test_a_copy_is_told_as_the_original_was(node: Serving, follow: Follow) -> None:
    """The target tells one store with the original's parent, position, adapter and token ids."""
    full = namespace("full", keep_token_ids=True)
    fingerprint = await node.client.register_namespace(full)
    offer = run("child", "grandchild", after="root", adapter_name="poet", scope=b"tenant")
    offer.token_ids.extend(range(2 * TOKENS))
    follower = await follow(node)
    await node.client.store("cpu0", fingerprint, [offer], payloads("child", "grandchild"))
    (original,) = [stored for batch in await follower.batches() for stored in batch.stored]

    answers = node.client.copy(
        fingerprint,
        [run("child", "grandchild", after="root", scope=b"tenant")],
        to_tier="gpu0",
        from_tier="cpu0",
    )
    assert [list(answer.results) async for answer in answers] == [[1, 1]]

    batches = await follower.batches()
    (copy,) = [stored for batch in batches for stored in batch.stored]
    assert [len(batch.removed) for batch in batches] == [0]
    assert copy.tier == "gpu0"
    assert _without_place(copy) == _without_place(original)
    described = await node.client.describe_block(
        fingerprint, 0, b"tenant", block_hash("grandchild")
    )
    assert _facts(described, "gpu0") == _facts(described, "cpu0")


def _without_place(stored: BlockStored) -> BlockStored:
    there = BlockStored()
    there.CopyFrom(stored)
    there.ClearField("tier")
    there.ClearField("medium")
    return there


def _facts(described: DescribeBlockResponse, tier: str) -> tuple[object, ...]:
    (block,) = [copy for copy in described.copies if copy.tier == tier]
    return block.parent_block_hash, block.start_position, block.adapter_name, block.size_bytes


async def test_a_silent_tier_is_copied_from_and_to(serve: Serve, follow: Follow) -> None:
    """Only the tier that keeps events tells of its copies."""
    node = await serve(gpu_tier(4), cpu_tier(4, events=False))
    await node.store(1)
    follower = await follow(node)

    up = await copy_blocks(node, run(1), source="cpu0", to="gpu0", move=True)
    down = await copy_blocks(node, run(1), source="gpu0", to="cpu0", move=True)

    assert up.results == down.results == ["COPIED"]
    told = [(each.what, each.tier, each.reason) for each in await follower.news()]
    assert told == [("stored", "gpu0", ""), ("removed", "gpu0", "DEMOTED")]


async def test_a_copy_from_nowhere_or_to_itself_is_refused(node: Serving) -> None:
    """The answer names the tier that is wrong, and nothing changes."""
    await node.store(1)
    before = await node.state()

    with pytest.raises(InvalidArgumentError, match="from_tier or from_peer"):
        await copy_blocks(node, run(1), to="gpu0")
    with pytest.raises(InvalidArgumentError, match="both 'cpu0'"):
        await copy_blocks(node, run(1), source="cpu0", to="cpu0")
    with pytest.raises(NotFoundError, match="tape0"):
        await copy_blocks(node, run(1), source="tape0", to="gpu0")
    with pytest.raises(NotFoundError, match="tape0"):
        await copy_blocks(node, run(1), source="cpu0", to="tape0")

    assert await node.state() == before


async def test_a_draining_node_begins_no_copy(node: Serving) -> None:
    """A copy is new work."""
    await node.store(1)
    node.node.closing = True

    with pytest.raises(UnavailableError, match="draining"):
        await copy_blocks(node, run(1), source="cpu0", to="gpu0")
