"""A node that drains sends its followers off with everything, and a reason to look elsewhere."""

import asyncio

import pytest

from kvtier.client import KvtierError, Reason, UnavailableError
from kvtier.v1.block_pb2 import Medium

from .conftest import Serve
from .folding import listed
from .following import following
from .support import Serving, cpu_tier, gpu_tier, hash_set, payload, run
from .writing import writing


def check_goodbye(error: KvtierError | None) -> None:
    """The stream ended as one of a draining node does."""
    assert error is not None
    assert (error.code.name, error.reason) == ("UNAVAILABLE", Reason.DRAINING)
    assert error.retry_after


async def begin_drain(node: Serving) -> "asyncio.Task[None]":
    """Let a node drain, and wait until it refuses work."""
    drain = asyncio.create_task(node.server.drain_and_stop())
    while not node.node.closing:  # noqa: ASYNC110 - there is no event for it
        await asyncio.sleep(0)
    return drain


async def test_followers_get_every_event_before_they_are_sent_off(serve: Serve) -> None:
    """Whole, filtered and late followers all reach the last event of a busy node first."""
    node = await serve(gpu_tier(64), cpu_tier(64))
    async with (
        following(node.endpoint) as whole,
        following(node.endpoint, media=[Medium.MEDIUM_GPU]) as filtered,
        following(node.endpoint, tiers=["cpu0"]) as half,
    ):
        async with writing(node, "cpu0", "cpu0") as writers:
            await whole.until(lambda: writers.calls > 20)
        await node.server.drain_and_stop()
        for each in (whole, filtered, half):
            await each.until(lambda: each.error)  # noqa: B023 - awaited at once

    head = node.node.log.head
    assert [each.fold.through for each in (whole, filtered, half)] == [head] * 3
    assert whole.fold.view == half.fold.view
    for each in (whole, filtered, half):
        check_goodbye(each.error)


async def test_what_is_completed_while_the_node_drains_is_told(serve: Serve) -> None:
    """A drain waits for open leases, and followers stay until the last of them has ended."""
    node = await serve(drain_timeout=30)
    async with following(node.endpoint) as follower:
        prepared = await node.client.prepare_store("cpu0", node.namespace, [run("last")])
        drain = await begin_drain(node)
        await node.client.write_blocks(prepared.lease, {0: payload("last")}, [64])
        assert follower.error is None
        await node.client.complete_store(prepared.lease)
        await drain
        await follower.until(lambda: follower.error)

    check_goodbye(follower.error)
    assert {key.block_hash for key in follower.fold.view} == hash_set(["last"])


async def test_a_draining_node_takes_no_new_work_and_answers_questions(serve: Serve) -> None:
    """Offers and pins are refused with the reason; lookups, listings and new followers are not."""
    node = await serve(drain_timeout=30)
    await node.store("there")
    prepared = await node.client.prepare_store("cpu0", node.namespace, [run("open")])
    drain = await begin_drain(node)

    with pytest.raises(UnavailableError) as refused:
        await node.client.prepare_store("cpu0", node.namespace, [run("new")])
    async with following(node.endpoint) as late:
        assert await node.look_up("there") == ["HIT"]
        assert late.fold.view == await listed(node.client)
        await node.client.release_leases([prepared.lease])
        await drain
        await late.until(lambda: late.error)

    assert refused.value.reason == Reason.DRAINING
    check_goodbye(late.error)
