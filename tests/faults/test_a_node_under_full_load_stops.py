"""Two hundred followers, thirty-two callers at work, and then a stop: nothing confirmed is lost.

KVTIER_TEST_EFFORT=10 goes on for ten times as long.
"""

import asyncio
import json
import random
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from kvtier.client import NodeClient
from kvtier.wire.errors import Reason
from tests.contract.filed import files_tier
from tests.contract.folding import listed
from tests.contract.support import block_hash
from tests.model.effort import seconds

from . import load_callers, load_followers
from .conftest import StartNode
from .load_callers import FINGERPRINT, OWN, SIZES, content, sets_of
from .load_followers import TIER, digest
from .processes import ENVIRONMENT, NodeProcess, end, ready

ROOT = Path(__file__).parents[2]
MIB = 1 << 20
PROCESSES, CALLERS, FOLLOWERS = 4, 8, 50
WARM_UP, SECONDS = 10, 15
# What the settings below allow a stop, and as much again for a machine that does other things.
GRACE = 30.0
# What an allocator keeps to itself, whatever is done.
SLACK = 48 * MIB


async def started(stack: AsyncExitStack, module: Any, *arguments: object) -> Process:
    """Start a program of these tests, and wait for its first line."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module.__name__, *map(str, arguments)),
        stdout=PIPE, cwd=ROOT, env=ENVIRONMENT,
    )  # fmt: skip
    stack.push_async_callback(end, process)
    assert process.stdout is not None
    async with asyncio.timeout(120):
        assert await process.stdout.readline() in {b"at work\n", b"following\n"}
    return process


async def told(process: Process) -> Any:
    """Return what a program prints at its end."""
    async with asyncio.timeout(60):
        out, _ = await process.communicate()
    return json.loads(out)


def own_bytes(node: NodeProcess) -> int:
    """The memory of a node's process that it shares with nobody."""
    status = Path(f"/proc/{node.process.pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("RssAnon")]
    return int(line.split()[1]) << 10


@pytest.mark.slow
@pytest.mark.timeout(180 + seconds(WARM_UP + SECONDS))
async def test_what_was_confirmed_outlives_a_stop(start_node: StartNode, tmp_path: Path) -> None:
    """Memory is flat until then, views are what is listed afterwards, and loads are exact."""
    tiers = [
        {"name": "cpu0", "medium": "cpu", "capacity": 16 * SIZES[-1], "slot_bytes": SIZES[-1]},
        files_tier(tmp_path / "files", capacity="512MiB"),
    ]
    node = await start_node(
        tiers=tiers,
        drain_timeout=10,
        limits={"snapshots": 64},
        events={"max_bytes": MIB, "linger": 0.05},
    )
    seed = random.randrange(1 << 30)
    async with AsyncExitStack() as stack:
        callers = [
            await started(stack, load_callers, node.endpoint, place * CALLERS, CALLERS, seed)
            for place in range(PROCESSES)
        ]
        followers = [
            await started(stack, load_followers, node.endpoint, FOLLOWERS) for _ in range(PROCESSES)
        ]
        await asyncio.sleep(seconds(WARM_UP))
        warm = own_bytes(node)
        await asyncio.sleep(seconds(SECONDS))
        grown = own_bytes(node) - warm

        start = time.monotonic()
        code = await node.terminate()
        took = time.monotonic() - start
        reports = [await told(process) for process in callers]
        ends = [each for process in followers for each in await told(process)]
    tally = sum((Counter(report["tally"]) for report in reports), Counter())
    stored = sorted(name for report in reports for name in report["stored"])
    gone = {name for report in reports for name in report["gone"]}
    what = f"seed {seed}: {dict(tally)}, {grown >> 20} MiB more, stopped in {took:.1f} s"

    node = await start_node(node)
    async with NodeClient(node.endpoint, timeout=60) as client:
        await ready(client)
        there = {key.block_hash for key in await listed(client, TIER)}
        for name in stored:
            report = await client.load(TIER, FINGERPRINT, sets_of([name]))
            assert list(report.payloads) == [content(name)], f"block {name}: {what}"

    assert (code, took < GRACE) == (0, True), what
    assert grown < SLACK, what
    assert there.isdisjoint(map(block_hash, gone)), what
    assert len(stored) > OWN, what
    assert Counter(each[:2] for each in map(tuple, ends)) == {
        ("UNAVAILABLE", Reason.DRAINING): PROCESSES * FOLLOWERS
    }, what
    assert {view for *_, view in ends} == {digest(there)}, what
    for kind in ("stored", "loaded", "looked up", "deleted", "moved"):
        assert tally[kind] > PROCESSES * CALLERS, what
    print(what)  # noqa: T201 - figures for whoever asks
