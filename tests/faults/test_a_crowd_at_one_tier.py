"""Sixty-four clients at one small tier, by memory and by streams: no byte is ever wrong.

KVTIER_TEST_EFFORT=20 goes on for twenty times as long.
"""

import asyncio
import json
import random
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from contextlib import AsyncExitStack

import pytest

from kvtier.client import NodeClient
from tests.contract.folding import listed
from tests.contract.following import following
from tests.model.effort import seconds

from .conftest import StartNode
from .mapped_crowd import NAMESPACE, SIZES
from .processes import end

PROCESSES, CLIENTS, SLOTS = 4, 16, 48
SECONDS = 12
QUARANTINE = 1


@pytest.mark.slow
async def test_every_load_is_exact_while_blocks_come_and_go(start_node: StartNode) -> None:
    """Whoever stores, evicts, deletes, or abandons what it began; at the end nothing is held."""
    slot = max(SIZES)
    tier = {"name": "cpu0", "medium": "cpu", "capacity": SLOTS * slot, "slot_bytes": slot}
    node = await start_node(tiers=[tier], slot_quarantine=QUARANTINE)
    seed = random.randrange(1 << 30)
    async with NodeClient(node.endpoint) as client, following(node.endpoint) as follower:
        tally = await crowd(node.endpoint, seed)
        head = (await client.get_node()).head.sequence
        await follower.until(lambda: follower.fold.through >= head)
        await asyncio.sleep(QUARANTINE + 1)
        (about,) = await client.list_tiers()

        assert [what for what in tally if "WRONG" in what] == [], f"seed {seed}"
        for what in ("stored", "loaded", "read"):
            for way in ("shared memory", "stream"):
                assert tally[f"{what} by {way}"] > 100, tally
        assert min(tally["abandoned"], tally["deleted"]) > 10, tally
        held = about.pending_blocks, about.leased_blocks, about.draining_blocks
        assert (held, about.quarantined_blocks) == ((0, 0, 0), 0)
        assert about.counters.corrupt == 0
        assert follower.fold.view == await listed(client)
    assert NAMESPACE.block_bytes == SIZES


async def crowd(endpoint: str, seed: int) -> Counter[str]:
    """Run the crowd; return what came of its calls."""
    async with AsyncExitStack() as stack:
        processes = []
        for place in range(PROCESSES):
            arguments = map(str, (endpoint, CLIENTS, seconds(SECONDS), seed + place))
            command = (sys.executable, "-m", "tests.faults.mapped_crowd", *arguments)
            process: Process = await asyncio.create_subprocess_exec(*command, stdout=PIPE)
            stack.push_async_callback(end, process)
            processes.append(process)
        told = await asyncio.gather(*(process.communicate() for process in processes))
    tally: Counter[str] = Counter()
    for output, _ in told:
        tally.update(json.loads(output))
    return tally
