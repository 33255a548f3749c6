"""There are only so many followers at a time; whoever is too many is told, and harms nobody."""

from contextlib import AsyncExitStack

from kvtier.wire.errors import Reason
from tests.waiting import until

from .conftest import Serve
from .following import following
from .support import cpu_tier


async def test_a_follower_too_many_is_refused_and_harms_nobody(serve: Serve) -> None:
    """It is told the limit and when to try again; a place that comes free is given away."""
    node = await serve(cpu_tier(4), limits={"followers": 3})
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(following(node.endpoint))
        await stack.enter_async_context(following(node.endpoint))
        async with following(node.endpoint):
            async with following(node.endpoint) as refused:
                assert not refused.messages
            assert (await node.client.get_node()).followers == 3
        await until(lambda: node.node.followers == 2)
        async with following(node.endpoint) as admitted:
            await node.store(1)
            await first.settle(node.client)
            await admitted.settle(node.client)

    error = refused.error
    assert error is not None
    assert (error.code.name, error.reason) == ("RESOURCE_EXHAUSTED", Reason.FOLLOWER_LIMIT)
    assert "3" in error.message
    assert error.retry_after
    assert first.fold.view == admitted.fold.view
    assert len(first.fold.view) == 1
    await until(lambda: node.node.followers == 0)


async def test_followers_wait_for_their_turn_of_a_snapshot(serve: Serve) -> None:
    """More followers than snapshots at a time all get their snapshot, one after the other."""
    node = await serve(cpu_tier(4096), limits={"snapshots": 2}, events={"message_bytes": "1KiB"})
    for chain in range(8):
        await node.store(*((chain, place) for place in range(500)))
    async with AsyncExitStack() as stack:
        followers = [await stack.enter_async_context(following(node.endpoint)) for _ in range(8)]

    assert [len(each.fold.view) for each in followers] == [4000] * 8
