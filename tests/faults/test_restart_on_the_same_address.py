"""A node that starts anew is told from the one that was there, and nothing of the old one stays."""

import pytest

from kvtier.client import NodeClient
from kvtier.v1.event_service_pb2 import ResetReason
from tests.contract.support import block_hash, cpu_tier, hash_set, namespace, payloads, run
from tests.contract.viewing import View, proxying, watching

from .conftest import StartNode
from .processes import reached

FIRST_LIFE = 1000


async def fill(client: NodeClient, life: str, batches: int) -> set[bytes]:
    """Make as many batches, of one block each; return the blocks."""
    fingerprint = await client.register_namespace(namespace())
    for step in range(batches):
        block = (life, step)
        await client.store("cpu0", fingerprint, [run(block)], payloads(block))
    return hash_set([(life, step) for step in range(batches)])


def seen(view: View, node_id: str) -> set[bytes]:
    return {key.block_hash for key in view.held(node_id)}


def lives(view: View) -> list[int]:
    return list(dict.fromkeys(message.epoch for message in view.messages if message.epoch))


def resets(view: View) -> list[str]:
    told = [m.reset.reason for m in view.messages if m.HasField("reset")]
    return [ResetReason.Name(reason).removeprefix("RESET_REASON_") for reason in told]


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [5, FIRST_LIFE + 50], ids=["behind", "beyond"])
async def test_a_killed_node_leaves_nothing_of_its_first_life(
    start_node: StartNode, blocks: int
) -> None:
    """Also when the new log has come further than the old one, a follower starts over."""
    node = await start_node()
    async with NodeClient(node.endpoint) as client, watching(client) as view:
        old = await fill(client, "first", FIRST_LIFE)
        before = await client.get_node()
        await view.settle(client)
        assert seen(view, before.node_id) == old

        await node.kill()
        await start_node(node)
        await reached(client)
        new = await fill(client, "second", blocks)
        after = await client.get_node()
        await view.settle(client)

    assert after.node_id == before.node_id
    assert after.incarnation != before.incarnation
    assert lives(view) == [before.head.epoch, after.head.epoch]
    assert resets(view) == ["NO_POSITION", "EPOCH_CHANGED"]
    assert (after.head.sequence > before.head.sequence) == (blocks > FIRST_LIFE)
    assert seen(view, before.node_id) == new


async def test_a_proxy_forgets_a_secondary_that_started_anew(start_node: StartNode) -> None:
    """Its mirror and its merged stream hold what is there now; the primary is untouched."""
    primary, secondary = await start_node(), await start_node()
    async with (
        NodeClient(primary.endpoint) as near,
        NodeClient(secondary.endpoint) as far,
        proxying(near, [far]) as (proxy, view),
    ):
        kept = await fill(near, "primary", 20)
        await fill(far, "first", 50)
        await view.settle(near)
        await view.settle(far)

        await secondary.kill()
        await start_node(secondary)
        await reached(far)
        new = await fill(far, "second", 5)
        await view.settle(far)
        name = (await far.get_node()).node_id

        assert seen(view, name) == new
        assert {key.block_hash for key in proxy.index.blocks(name, "cpu0")} == new
        assert seen(view, (await near.get_node()).node_id) == kept


async def test_a_node_that_was_full_comes_back_empty(start_node: StartNode) -> None:
    """What a killed node had in shared memory is neither served nor in the next one's way."""
    node = await start_node(tiers=[cpu_tier(64)])
    async with NodeClient(node.endpoint) as client:
        await fill(client, "first", 64)
        await node.kill()
        await start_node(node)
        await reached(client)
        empty = [block async for block in client.list_blocks()]
        stored = await fill(client, "second", 64)
        listed = {block.block_hash async for block in client.list_blocks()}

    assert empty == []
    assert listed == stored
    assert block_hash(("first", 0)) not in listed
