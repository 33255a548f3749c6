"""However many blocks a node holds, listing them costs the command line little."""

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE
from time import perf_counter

import pytest

from kvtier.client import NodeClient
from kvtier.v1.block_pb2 import BlockRun
from tests.contract.support import cpu_tier, namespace

from .conftest import StartNode
from .processes import ENVIRONMENT

BLOCKS, CHAIN, SIZE, WIDTH = 300_000, 10_000, 8, 32
MIB = 1 << 20
# Far less than the listing takes, and enough for a machine that is busy.
SOON = 15.0
HEAD = '"$@" | head -n 1; echo ${PIPESTATUS[0]}'
# Sums up a child's memory and lines: the kernel tells the most that a process had at its end.
MEASURE = """
import os, subprocess, sys

command = [sys.executable, "-m", "kvtier.cli", *sys.argv[1:]]
child = subprocess.Popen(command, stdout=subprocess.PIPE)
lines = sum(1 for _ in child.stdout)
_, status, usage = os.wait4(child.pid, 0)
print(os.waitstatus_to_exitcode(status), lines, usage.ru_maxrss)
"""


async def fill(client: NodeClient) -> None:
    """Store the blocks, one chain a call."""
    fingerprint = await client.register_namespace(namespace("many", block_bytes=[SIZE]))
    for first in range(0, BLOCKS, CHAIN):
        hashes = b"".join(n.to_bytes(WIDTH, "big") for n in range(first, first + CHAIN))
        offer = BlockRun(block_hashes=hashes)
        await client.store("cpu0", fingerprint, [offer], [bytes(SIZE)] * CHAIN)


async def run(*command: str) -> tuple[str, str]:
    """Run a command to its end and return what it wrote to stdout and stderr."""
    process = await asyncio.create_subprocess_exec(
        *command, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env=ENVIRONMENT
    )
    out, err = await process.communicate()
    return out.decode(), err.decode()


@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_hundreds_of_thousands_of_blocks_are_listed_at_once_and_in_little_memory(
    start_node: StartNode,
) -> None:
    """The first line comes soon, `| head -1` ends it quietly, and memory is bounded."""
    node = await start_node(tiers=[cpu_tier(BLOCKS * SIZE, slot_bytes=SIZE)])
    async with NodeClient(node.endpoint, timeout=60) as client:
        await fill(client)
    listing = ("get", "blocks", "-e", node.endpoint, "-o", "jsonl")

    start = perf_counter()
    head = await run("bash", "-c", HEAD, "bash", sys.executable, "-m", "kvtier.cli", *listing)
    took = perf_counter() - start
    out, _ = await run(sys.executable, "-c", MEASURE, *listing)

    code, lines, kib = map(int, out.split())
    first, ended = head[0].splitlines()
    assert json.loads(first)["tier"] == "cpu0"
    assert (ended, head[1]) == ("141", "")
    assert took < SOON
    assert (code, lines) == (0, BLOCKS)
    assert kib * 1024 < 150 * MIB
