"""A follower that keeps its stream and does not read it costs a bounded sum, for a bounded time."""

import asyncio
from collections.abc import Sequence

import pytest

from kvtier.client import NodeClient

from .bulk import Filler, resident_bytes, small_tier
from .conftest import StartNode
from .crowds import crowd_process
from .processes import NodeProcess

KIB, MIB = 1 << 10, 1 << 20
RING, MESSAGE = 4 * MIB, 256 * KIB
# As docs/operations.md has it: a message as we hold it, the same as gRPC does, and what is around.
EACH = 2 * MESSAGE + 256 * KIB
# What an allocator keeps to itself, whatever is stored.
SLACK = 16 * MIB
# Blocks after which the log, and the answers that a node remembers, are full.
FILLED = 550_000
STALLED = ("RESOURCE_EXHAUSTED", "FOLLOWER_STALLED")


def settings(stall_timeout: float, followers: int) -> dict[str, object]:
    return {
        "tiers": [small_tier(20_000)],
        "limits": {"snapshots": followers},
        "events": {
            "max_bytes": RING,
            "message_bytes": MESSAGE,
            "stall_timeout": stall_timeout,
            "snapshot_stall_timeout": stall_timeout,
        },
    }


async def nobody_follows(client: NodeClient, node: NodeProcess, grown: list[int]) -> None:
    """Wait until a node counts no follower, and note its memory meanwhile."""
    async with asyncio.timeout(20):
        while (await client.get_node()).followers:
            grown.append(resident_bytes(node))
            await asyncio.sleep(0.05)


def p99(seconds: Sequence[float]) -> float:
    return sorted(seconds)[len(seconds) * 99 // 100]


@pytest.mark.slow
async def test_a_follower_that_never_reads_slows_no_store(start_node: StartNode) -> None:
    """200,000 blocks are stored as fast as on a node without it, call by call in turn with that.

    It costs no more memory than is documented, and is sent off with a reason in the end.
    """
    blocks, together = 200_000, 200
    quiet, followed = [await start_node(**settings(3, followers=1)) for _ in range(2)]
    async with NodeClient(quiet.endpoint) as one, NodeClient(followed.endpoint) as other:
        alone, beside = await Filler.of(one), await Filler.of(other)
        for filler in (alone, beside):
            await filler.store(FILLED, 5000)
            filler.took.clear()
        before = resident_bytes(followed)
        grown: list[int] = []
        async with crowd_process(followed.endpoint, 1, reads=0) as crowd:
            for _ in range(blocks // together):
                for filler in (alone, beside):
                    await filler.store(together, together)
                grown.append(resident_bytes(followed))
            await nobody_follows(other, followed, grown)
            endings = await crowd.endings()

    assert p99(beside.took) < 2 * p99(alone.took)
    assert max(grown) - before < EACH + SLACK
    assert endings == [STALLED]


@pytest.mark.slow
async def test_fifty_followers_that_stop_reading_cost_no_more_than_is_documented(
    start_node: StartNode,
) -> None:
    """While a million block events are made; memory stops growing, and comes back for the next."""
    crowd_size, step, together = 50, 50_000, 5_000
    node = await start_node(**settings(stall_timeout=2, followers=crowd_size))
    peaks: list[int] = []
    async with NodeClient(node.endpoint) as client:
        filler = await Filler.of(client)
        await filler.store(FILLED, together)
        before = resident_bytes(node)
        for _ in range(2):
            grown: list[int] = []
            async with crowd_process(node.endpoint, crowd_size) as crowd:
                for _ in range(5):
                    await filler.store(step, together)
                    grown.append(resident_bytes(node))
                await nobody_follows(client, node, grown)
                endings = await crowd.endings()
            peaks.append(max(grown))
            assert endings == [STALLED] * crowd_size
            assert grown[-1] - grown[2] < SLACK
        events = 2 * sum(1 for _ in filler.took) * together

    assert events >= 1_000_000
    assert peaks[0] - before < crowd_size * EACH + SLACK
    assert peaks[1] - peaks[0] < SLACK
