"""A node that died is named to nobody within seconds, and comes back with only what it has."""

import asyncio
from pathlib import Path

import pytest

from kvtier.client import Watch
from tests.contract.support import cpu_tier, fs_tier, hash_set
from tests.faults.conftest import StartNode
from tests.faults.processes import recovered

from .cluster import Cluster, serving
from .lab import Lab

# A node's own interval and the watch's default: three heartbeats are missed, and a moment passes.
HEARTBEATS = {"linger": 0, "heartbeat_interval": 1.0}
UNNAMED_SECONDS = 4.0


async def not_found(cluster: Cluster, block: object) -> None:
    """Wait until lookups do not find a block any more."""
    while await cluster.looked_up(block) == ["HIT"]:  # noqa: ASYNC110 - it is polled
        await asyncio.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("with_its_host", [False, True])
async def test_a_dead_node_is_not_named_and_comes_back_as_what_it_is(
    lab: Lab, start_node: StartNode, tmp_path: Path, with_its_host: bool
) -> None:
    """What was in memory is not found any more; what was on disk is again, once it is back."""
    folders = [tmp_path / "near", tmp_path / "lost", tmp_path / "good"]
    for folder in folders:
        folder.mkdir()
    async with serving(
        lab,
        start_node,
        lambda number: [cpu_tier(64), fs_tier(64, folders[number])],
        watch=Watch,
        events=HEARTBEATS,
    ) as cluster:
        lost, good = cluster.secondaries
        await lost.store("in memory")
        await lost.store("on disk", "fs0")
        await cluster.primary.store("near")
        await good.store("far")
        await cluster.in_sync()
        before = await cluster.looked_up("in memory", "on disk", "near", "far")

        if with_its_host:
            # Nothing is left there that would say that the connections ended.
            lost.host.cut()
        await lost.process.kill()
        async with asyncio.timeout(UNNAMED_SECONDS):
            await not_found(cluster, "in memory")
            await not_found(cluster, "on disk")
        gone = await cluster.looked_up("in memory", "on disk", "near", "far")
        lost.process = await start_node(lost.process)
        lost.host.heal()
        await cluster.live()
        await recovered(lost.client)
        await cluster.in_sync()
        back = await cluster.looked_up("in memory", "on disk", "near", "far")
        held = {key.block_hash for key in cluster.view.held(lost.name)}
        wrong = await cluster.wrong()

    assert before == ["HIT"] * 4
    assert gone[2:] == ["HIT", "HIT"]
    assert back == ["MISS", "HIT", "HIT", "HIT"]
    assert held == hash_set(["on disk"])
    assert wrong == {}
