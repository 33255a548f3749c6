"""Two clients that hold one block: each lets go of its own part, and the block outlives both."""

import pytest

from kvtier.client import ExhaustedError, NodeClient
from kvtier.v1.block_pb2 import Lease

from .conftest import Connect, Follow, Serve
from .support import (
    ANY_TIER,
    BLOCK_BYTES,
    MakeTier,
    Serving,
    blocks_of,
    payloads,
    run,
)


async def hold(client: NodeClient, node: Serving) -> Lease:
    """Pin the block for a client."""
    wanted = (ANY_TIER, node.namespace, [blocks_of("A")])
    return (await client.prepare_load(*wanted)).lease


async def read(client: NodeClient, lease: Lease) -> list[object]:
    return list((await client.read_blocks(lease, [BLOCK_BYTES])).payloads)


async def test_one_holder_that_lets_go_removes_nothing(
    serve: Serve, connect: Connect, follow: Follow, any_tier: MakeTier
) -> None:
    """The other still reads it, everybody still finds it, and no event is told."""
    node = await serve(any_tier(1))
    await node.store("A", tier=ANY_TIER)
    one, other = await connect(node), await connect(node)
    leases = [await hold(client, node) for client in (one, other)]
    follower = await follow(node)

    await one.release_leases([leases[0]])
    await one.release_leases([leases[0]])

    assert await node.look_up("A") == ["HIT"]
    assert await read(other, leases[1]) == payloads("A")
    assert await node.gauges(ANY_TIER) == {"ready": 1, "leased": 1}
    await other.release_leases([leases[1]])
    assert await node.look_up("A") == ["HIT"]
    assert await follower.news() == []


async def test_the_slot_of_a_deleted_block_waits_for_both(
    serve: Serve, connect: Connect, follow: Follow, memory_tier: MakeTier
) -> None:
    """It is removed once, at once; both read it to the end; then its room is given away."""
    node = await serve(memory_tier(1))
    await node.store("A", tier=ANY_TIER)
    holders = [await connect(node), await connect(node)]
    leases = [await hold(client, node) for client in holders]
    follower = await follow(node)

    await node.client.delete(node.namespace, [blocks_of("A")], force=True)
    told = [(each.what, each.reason) for each in await follower.news()]
    refused: list[str] = []
    for client, lease in zip(holders, leases, strict=True):
        with pytest.raises(ExhaustedError) as full:
            await node.client.prepare_store(ANY_TIER, node.namespace, [run("B")])
        refused.append(full.value.reason)
        assert await read(client, lease) == payloads("A")
        await client.complete_load(lease)
    await node.store("B", tier=ANY_TIER)

    assert told == [("removed", "DELETED")]
    assert refused == ["TIER_FULL", "TIER_FULL"]
    assert await node.load("B", tier=ANY_TIER) == payloads("B")
    assert [each.what for each in await follower.news()] == ["stored"]
