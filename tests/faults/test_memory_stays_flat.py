"""A node that stores new blocks without end never needs more memory than at the start of it."""

import resource
import time

import pytest

from kvtier.client import NodeClient

from .bulk import Filler, resident_bytes, small_tier
from .conftest import StartNode
from .crowds import crowd_process

MIB = 1 << 20
FOLLOWERS = 20
# Blocks after which tables, log, and remembered answers are full.
FILLED = 550_000
SECONDS = 8.0
# What an allocator keeps to itself, whatever is stored.
SLACK = 16 * MIB
# Of a process's own memory, without what it shares: the tier is shared.
LIMIT = 512 * MIB


@pytest.mark.slow
async def test_new_blocks_and_twenty_followers_need_no_more_memory(start_node: StartNode) -> None:
    """Under a limit of memory the node lives, followers get on, and what it has stays flat."""
    node = await start_node(tiers=[small_tier(50_000)], events={"max_bytes": 16 * MIB})
    resource.prlimit(node.process.pid, resource.RLIMIT_DATA, (LIMIT, LIMIT))
    async with (
        NodeClient(node.endpoint) as client,
        crowd_process(node.endpoint, FOLLOWERS) as crowd,
    ):
        assert crowd.process.stdin is not None
        crowd.process.stdin.write(b"read on\n")
        filler = await Filler.of(client)
        await filler.store(FILLED, 1000)
        full, most = resident_bytes(node), 0
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            await filler.store(10_000, 1000)
            most = max(most, resident_bytes(node))
        about = await client.get_node()
        (tier,) = await client.list_tiers()

    assert most - full < SLACK
    # One that a busy machine has read too slowly three times over is sent off.
    assert about.followers > FOLLOWERS // 2
    assert tier.ready_blocks == tier.capacity_blocks
    assert tier.counters.stored == len(filler.took) * 1000 > FILLED
