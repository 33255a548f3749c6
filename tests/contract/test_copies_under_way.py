"""Copies within a node while they go on: callers who leave, and who come meanwhile."""

import asyncio

from tests.waiting import until

from .conftest import Follow, Serve
from .copying import Copied, arriving, copy_blocks, nothing_is_held
from .gates import LARGE, gated
from .support import Serving, blocks_of, cpu_tier, gpu_tier, hash_set, namespace, payload, run


async def large_node(serve: Serve) -> Serving:
    """A node whose blocks are so large that threads copy them."""
    size = {"capacity": 4 * LARGE, "slot_bytes": LARGE}
    node = await serve({**gpu_tier(0), **size}, {**cpu_tier(0), **size}, register=False)
    large = namespace("large", block_bytes=[LARGE])
    fingerprint = await node.client.register_namespace(large)
    node = Serving(node.server, node.client, node.clock, fingerprint)
    for block in (1, 2, 3):
        await node.client.store("cpu0", fingerprint, [run(block)], [payload(block, LARGE)])
    return node


async def test_a_caller_that_leaves_lets_the_step_under_way_end(serve: Serve) -> None:
    """The block that was being copied arrives, the next is not begun, and nothing is held."""
    node = await large_node(serve)
    with gated(node, "gpu0") as gate:
        call = asyncio.create_task(copy_blocks(node, run(1, 2, 3), source="cpu0", to="gpu0"))
        await gate.reached()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        # The node hears of it a little later.
        await until(lambda: not node.node.transfers)
        gate.let_through()
        await node.comes_to({"ready": 1}, "gpu0")

    loaded = await node.load(1, tier="gpu0")
    assert loaded == [payload(1, LARGE)]
    nothing_is_held(node)


async def test_a_caller_may_leave_at_any_moment(serve: Serve) -> None:
    """Also between the beginning of its call and the first answer: the node hears of it."""
    node = await large_node(serve)
    with gated(node, "gpu0"):
        for turns in range(200):
            call = asyncio.create_task(copy_blocks(node, run(1), source="cpu0", to="gpu0"))
            for _ in range(turns % 50):
                await asyncio.sleep(0)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
        await until(lambda: not node.node.transfers)


async def test_who_comes_second_waits_for_the_copy_under_way(serve: Serve) -> None:
    """A block on its way is not copied again, and is present for who waited."""
    node = await large_node(serve)
    with gated(node, "gpu0") as gate, arriving(node) as steps:
        first = asyncio.create_task(copy_blocks(node, run(1), source="cpu0", to="gpu0"))
        await gate.reached()
        second = asyncio.create_task(copy_blocks(node, run(1), source="cpu0", to="gpu0"))
        await until(lambda: len(steps) == 2)
        gate.let_through()

    assert [(await each).results for each in (first, second)] == [["COPIED"], ["PRESENT"]]
    assert (await node.tier("gpu0")).counters.stored == 1


async def test_many_callers_at_once_copy_a_block_once(serve: Serve) -> None:
    """Each block is stored once, however many wait, and every caller is told that it is there.

    A step copies but one of these blocks, so that the callers meet again at each.
    """
    node = await large_node(serve)
    with gated(node, "gpu0") as gate, arriving(node) as steps:
        calls = [
            asyncio.create_task(copy_blocks(node, run(1, 2, 3), source="cpu0", to="gpu0"))
            for _ in range(4)
        ]
        await gate.reached()
        await until(lambda: len(steps) == len(calls))
        gate.let_through()
        copies = await asyncio.gather(*calls)

    assert {result for copied in copies for result in copied.results} == {"COPIED", "PRESENT"}
    assert sum(copied.results.count("COPIED") for copied in copies) == 3
    assert (await node.tier("gpu0")).counters.stored == 3
    nothing_is_held(node)


async def test_a_block_deleted_on_its_way_does_not_arrive(serve: Serve, follow: Follow) -> None:
    """A forced delete in the target wins; the source keeps its block."""
    node = await large_node(serve)
    follower = await follow(node)
    with gated(node, "gpu0") as gate:
        call = asyncio.create_task(copy_blocks(node, run(1), source="cpu0", to="gpu0"))
        await gate.reached()
        await node.client.delete(node.namespace, [blocks_of(1)], tiers=["gpu0"], force=True)
        gate.let_through()
        copied = await call

    assert copied.results == ["DELETED"]
    assert await follower.news() == []
    assert await node.held("cpu0") == hash_set([1, 2, 3])
    nothing_is_held(node)


async def test_answers_come_while_the_copy_goes_on(serve: Serve) -> None:
    """What is known is told before the rest is copied."""
    node = await large_node(serve)
    with gated(node, "gpu0") as gate:
        copied = Copied()
        wanted = run(1, 2, 3)
        call = asyncio.create_task(copy_blocks(node, wanted, source="cpu0", to="gpu0", into=copied))
        await gate.reached()
        gate.let_through()
        await call

    assert copied.results == ["COPIED"] * 3
    assert copied.answers == 3
