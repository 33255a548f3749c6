"""What a call costs does not grow with what a tier holds: a million blocks, and full."""

import asyncio
import json
import os
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from pathlib import Path

import pytest

from kvtier.client import NodeClient
from kvtier.v1.block_pb2 import BlockSet
from tests.contract.support import WIDTH

from . import asker
from .bulk import Filler, small_tier
from .conftest import StartNode
from .processes import ENVIRONMENT, end

ROOT = Path(__file__).parents[2]
SMALL, LARGE = 10_000, 1_000_000
AT_ONCE = 10_000
SOON = 2.0


def quantile(seconds: Sequence[float], per_cent: int) -> float:
    return sorted(seconds)[len(seconds) * per_cent // 100]


async def filled(client: NodeClient, blocks: int) -> Filler:
    """Fill a tier to its last slot."""
    filler = await Filler.of(client)
    await filler.store(blocks, AT_ONCE)
    (tier,) = await client.list_tiers()
    assert tier.ready_blocks == tier.capacity_blocks == blocks
    filler.took.clear()
    return filler


@pytest.mark.slow
async def test_an_eviction_costs_as_much_in_a_large_tier_as_in_a_small_one(
    start_node: StartNode,
) -> None:
    """20,000 new blocks, each of which evicts one, call by call in turn on a tier of each size."""
    nodes = [await start_node(tiers=[small_tier(blocks)]) for blocks in (SMALL, LARGE)]
    async with NodeClient(nodes[0].endpoint) as one, NodeClient(nodes[1].endpoint) as other:
        small, large = await filled(one, SMALL), await filled(other, LARGE)
        for _ in range(400):
            await small.store(50, 50)
            await large.store(50, 50)
        evicted = [(await client.list_tiers())[0].counters.evicted for client in (one, other)]

    assert evicted == [20_000, 20_000]
    for per_cent in (50, 99):
        assert quantile(large.took, per_cent) < 3 * quantile(small.took, per_cent)


@pytest.mark.slow
async def test_large_lookups_hold_up_neither_small_ones_nor_stores(start_node: StartNode) -> None:
    """Eight clients ask for 20,000 blocks at a time, while new blocks evict old ones."""
    node = await start_node(tiers=[small_tier(LARGE)])
    took: list[float] = []
    async with NodeClient(node.endpoint) as client:
        filler = await filled(client, LARGE)
        few = BlockSet(block_hashes=os.urandom(WIDTH * 8))
        fingerprint = filler.fingerprint
        arguments = (node.endpoint, fingerprint.hex(), "8", "20000")
        asking = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", asker.__name__, *arguments),
            stdin=PIPE, stdout=PIPE, cwd=ROOT, env=ENVIRONMENT,
        )  # fmt: skip
        try:
            await asyncio.sleep(2)
            until = time.monotonic() + 6
            while time.monotonic() < until:
                start = time.perf_counter()
                await client.lookup(fingerprint, [few])
                took.append(time.perf_counter() - start)
                await filler.store(50, 50)
                await asyncio.sleep(0.01)
            out, _ = await asking.communicate(b"")
        finally:
            await end(asking)
    batches = json.loads(out)

    assert min(len(took), len(batches)) > 20
    # On a machine that does nothing else 99 of 100 are to take 0.2 s for many blocks and 0.02 s for
    # few. Tests share theirs, so they hold what does not depend on that: nobody who asks for few
    # blocks waits for all those who ask for many.
    assert quantile(took, 50) < quantile(batches, 50) / 2
    assert quantile(filler.took, 50) < quantile(batches, 50)
    assert quantile(batches, 90) < SOON
