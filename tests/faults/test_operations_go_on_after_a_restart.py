"""A client that is busy while its node starts anew goes on by itself, and was told no lie."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kvtier.client import NodeClient
from tests.contract.support import (
    block_hash,
    cpu_tier,
    hash_set,
    namespace,
)
from tests.contract.viewing import watching

from .conftest import StartNode
from .processes import NodeProcess
from .working import stores, working

RECOVERY_SECONDS = 5.0


async def stop(node: NodeProcess) -> None:
    await node.terminate()


async def kill(node: NodeProcess) -> None:
    await node.kill()


async def kill_for_a_while(node: NodeProcess) -> None:
    await node.kill()
    await asyncio.sleep(4)


@pytest.mark.slow
@pytest.mark.parametrize("end_life", [stop, kill, kill_for_a_while])
async def test_operations_succeed_soon_after_the_node_serves(
    start_node: StartNode, end_life: Callable[[NodeProcess], Awaitable[None]]
) -> None:
    """Meanwhile they fail with typed errors; what is reported as stored is there, and once."""
    node = await start_node(tiers=[cpu_tier(65536)])
    async with (
        NodeClient(node.endpoint) as client,
        watching(client) as view,
        working(client, await client.register_namespace(namespace())) as worker,
    ):
        about = await client.get_node()
        name, first = about.node_id, about.head.epoch
        await view.until(lambda: len(stores(view, name, first)) > 20)

        known = len(worker.confirmed)
        await end_life(node)
        await start_node(node)
        async with asyncio.timeout(RECOVERY_SECONDS):
            await worker.all_succeed()
        recovered = len(worker.failures)
        for _ in range(10):
            await worker.all_succeed()
        await worker.finish()
        about = await client.get_node()
        await view.settle(client)
        listed = {block.block_hash async for block in client.list_blocks()}

    assert len(worker.failures) == recovered
    assert hash_set(worker.confirmed[known + 1 :]) <= listed
    assert block_hash(worker.confirmed[0]) not in listed
    assert {key.block_hash for key in view.held(about.node_id)} == listed
    assert first != about.head.epoch
    for epoch in (first, about.head.epoch):
        assert set(stores(view, name, epoch).values()) == {1}
