"""A secondary behind a thin link that is full of blocks is slow, and nobody else is."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count

import pytest

from kvtier.client import NodeClient
from kvtier.wire.namespaces import fingerprint
from tests.contract.support import blocks_of, cpu_tier, namespace, payload, run
from tests.faults.conftest import StartNode

from .arrivals import changes, pacing
from .cluster import Member, serving, writing
from .lab import Lab
from .writer import SMALL_TIER

LARGE = 1 << 20
LARGE_NAMESPACE = namespace("large", block_bytes=[LARGE])
LARGE_PRINT = fingerprint(LARGE_NAMESPACE)
BULK_TIER: dict[str, object] = {
    "name": "bulk0",
    "medium": "cpu",
    "capacity": 32 * LARGE,
    "slot_bytes": LARGE,
}
TIERS = [cpu_tier(4096), BULK_TIER, cpu_tier(64, SMALL_TIER)]
MBIT, CALM_SECONDS, SLOW_SECONDS = 50, 2.0, 5.0
TRANSFER_SECONDS = 10.0


@dataclass
class Moved:
    """How many bytes went each way."""

    there: int = 0
    back: int = 0


@asynccontextmanager
async def filling(member: Member) -> AsyncIterator[Moved]:
    """Keep the link of a node full both ways, with blocks."""
    moved = Moved()

    async def store(client: NodeClient) -> None:
        for step in count():
            await client.store("bulk0", LARGE_PRINT, [run(step)], [payload(step, LARGE)])
            moved.there += LARGE

    async def load(client: NodeClient) -> None:
        while True:
            report = await client.load("bulk0", LARGE_PRINT, [blocks_of("kept")])
            moved.back += len(report.payloads[0] or b"")

    async with (
        NodeClient(member.process.endpoint, timeout=TRANSFER_SECONDS) as storing,
        NodeClient(member.process.endpoint, timeout=TRANSFER_SECONDS) as loading,
    ):
        await storing.register_namespace(LARGE_NAMESPACE)
        await storing.store("bulk0", LARGE_PRINT, [run("kept")], [payload("kept", LARGE)])
        tasks = [asyncio.create_task(store(storing)), asyncio.create_task(load(loading))]
        try:
            yield moved
            assert not any(task.done() for task in tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.slow
async def test_a_full_link_of_a_secondary_is_nobody_elses_trouble(
    lab: Lab, start_node: StartNode
) -> None:
    """The primary keeps its pace beside 50 Mbit/s of blocks; every view comes to be exact."""
    async with serving(lab, start_node, tiers=lambda _: TIERS) as cluster:
        slow, good = cluster.secondaries
        async with writing(cluster.secondaries):
            async with pacing(cluster, "calm") as calm:
                await asyncio.sleep(CALM_SECONDS)
            slow.host.limit(MBIT)
            loop = asyncio.get_running_loop()
            begun = loop.time()
            async with pacing(cluster, "slow") as troubled, filling(slow) as moved:
                await asyncio.sleep(SLOW_SECONDS)
            took = loop.time() - begun
            slow.host.unlimit()
        await cluster.in_sync()
        wrong = await cluster.wrong()

    most = MBIT * 1e6 / 8 * took
    assert most / 4 < moved.there < most * 1.1
    assert most / 4 < moved.back < most * 1.1
    assert cluster.states(good) == ["SNAPSHOT", "LIVE"]
    assert changes(calm, troubled) == []
    assert all(cluster.arrivals.in_order(each.name) for each in cluster.members)
    assert wrong == {}
