"""A writer that stalls beyond its lease and then goes on writes into no other block.

Real processes: the writer is another program, which maps the tier, and the node sees it die by the
kernel's lock alone.
"""

import asyncio
import json
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from kvtier.client import ExhaustedError, NodeClient
from kvtier.v1.tier_pb2 import Tier
from tests.contract.support import block_hash, blocks_of, run

from .conftest import StartNode
from .mapped_client import BLOCK_BYTES, LATE, NAMESPACE
from .processes import NodeProcess, end

TTL = 1.0
LONG, SHORT = 600, 3
SEEN_SECONDS = 5.0

Write = Callable[..., Awaitable[Process]]


async def hear(process: Process) -> str:
    """The next line of a process."""
    assert process.stdout is not None
    async with asyncio.timeout(20):
        return (await process.stdout.readline()).decode().strip()


async def tell(process: Process) -> None:
    """Let a process go on."""
    assert process.stdin is not None
    process.stdin.write(b"\n")
    await process.stdin.drain()


@pytest.fixture
async def write() -> AsyncIterator[Write]:
    """Start writers, each of which has written half a block when it is given."""
    started: list[Process] = []

    async def start(node: NodeProcess, *how: str) -> Process:
        command = (sys.executable, "-m", "tests.faults.mapped_client", node.endpoint, str(TTL))
        process = await asyncio.create_subprocess_exec(*command, *how, stdin=PIPE, stdout=PIPE)
        started.append(process)
        assert await hear(process) == "half"
        return process

    yield start
    for process in started:
        await end(process)


@pytest.fixture
async def client() -> AsyncIterator[Callable[[NodeProcess], Awaitable[NodeClient]]]:
    async with AsyncExitStack() as stack:

        async def connect(node: NodeProcess) -> NodeClient:
            client = await stack.enter_async_context(NodeClient(node.endpoint))
            await client.register_namespace(NAMESPACE)
            return client

        yield connect


def settings(quarantine: int) -> dict[str, Any]:
    """A tier of two slots."""
    tier = {"name": "cpu0", "medium": "cpu", "capacity": 2 * BLOCK_BYTES}
    return {"tiers": [{**tier, "slot_bytes": BLOCK_BYTES}], "slot_quarantine": quarantine}


async def tier_of(client: NodeClient) -> Tier:
    (tier,) = await client.list_tiers()
    return tier


async def until(client: NodeClient, quarantined: int, seconds: float) -> float:
    """Wait until so many slots are quarantined; return how long that took."""
    begun = time.monotonic()
    while (await tier_of(client)).quarantined_blocks != quarantined:
        assert time.monotonic() - begun < seconds
        await asyncio.sleep(0.05)
    return time.monotonic() - begun


async def store(client: NodeClient, name: str) -> bytes:
    """Store a block of bytes made from its name."""
    fingerprint = await client.register_namespace(NAMESPACE)
    payload = (name.encode() * BLOCK_BYTES)[:BLOCK_BYTES]
    await client.store("cpu0", fingerprint, [run(name)], [payload])
    return payload


async def load(client: NodeClient, *names: str) -> list[bytes | None]:
    fingerprint = await client.register_namespace(NAMESPACE)
    return list((await client.load("cpu0", fingerprint, [blocks_of(*names)])).payloads)


async def test_a_writer_that_goes_on_after_its_lease_spoils_no_later_block(
    start_node: StartNode, write: Write, client: Callable[[NodeProcess], Awaitable[NodeClient]]
) -> None:
    """It is aborted, which frees its slot; the later block is byte-exact all the time."""
    node = await start_node(**settings(LONG))
    mine, writer = await client(node), await write(node)
    await until(mine, 1, 10)

    later = await store(mine, "later")
    fingerprint = await mine.register_namespace(NAMESPACE)
    with pytest.raises(ExhaustedError, match="1 quarantined"):
        await mine.prepare_store("cpu0", fingerprint, [run("x", "y")])
    await tell(writer)
    assert await hear(writer) == "whole"
    while_late = await load(mine, "later", "late")
    await tell(writer)
    answer = json.loads(await hear(writer))

    assert answer == "ABORTED"
    assert while_late == [later, None]
    assert (await tier_of(mine)).quarantined_blocks == 0
    another = await store(mine, "another")
    assert await load(mine, "later", "another", "late") == [later, another, None]


async def test_a_writer_that_is_stopped_and_goes_on_spoils_no_later_block(
    start_node: StartNode, write: Write, client: Callable[[NodeProcess], Awaitable[NodeClient]]
) -> None:
    """It writes its slot over and over; the kernel stops it in the middle, beyond its lease."""
    node = await start_node(**settings(LONG))
    mine, writer = await client(node), await write(node, "restless")
    writer.send_signal(signal.SIGSTOP)
    await until(mine, 1, 10)

    later = await store(mine, "later")
    writer.send_signal(signal.SIGCONT)
    loads = []
    for _ in range(20):
        loads.append(await load(mine, "later"))
        await asyncio.sleep(0.01)

    assert loads == [[later]] * 20
    assert (await tier_of(mine)).quarantined_blocks == 1


@pytest.mark.parametrize("stopped", [False, True])
async def test_the_slot_of_a_writer_that_dies_returns_at_once(
    start_node: StartNode,
    write: Write,
    client: Callable[[NodeProcess], Awaitable[NodeClient]],
    stopped: bool,
) -> None:
    """Long before the quarantine is over, by SIGKILL, also while it stands still."""
    node = await start_node(**settings(LONG))
    mine, writer = await client(node), await write(node)
    if stopped:
        writer.send_signal(signal.SIGSTOP)
    await until(mine, 1, 10)

    writer.kill()
    await writer.wait()
    await until(mine, 0, SEEN_SECONDS)

    blocks = [await store(mine, name) for name in ("a", "b")]
    assert await load(mine, "a", "b", "late") == [*blocks, None]


async def test_the_slot_of_a_writer_that_died_before_returns_with_its_lease(
    start_node: StartNode, write: Write, client: Callable[[NodeProcess], Awaitable[NodeClient]]
) -> None:
    """The half block is never found; the block can then be stored, and is told once."""
    node = await start_node(**settings(LONG))
    mine, writer = await client(node), await write(node)
    fingerprint = await mine.register_namespace(NAMESPACE)
    writer.kill()
    await writer.wait()

    found = set()
    async with asyncio.timeout(10):
        while (await tier_of(mine)).pending_blocks:
            answer = await mine.lookup(fingerprint, [blocks_of("late")], include_blocks=True)
            found |= set(answer.chains[0].results)
            assert await load(mine, "late") == [None]
    tier = await tier_of(mine)
    await mine.store("cpu0", fingerprint, [run("late")], [LATE])

    # HIT_PENDING while it was reserved, and MISS.
    assert found <= {2, 3}
    assert (tier.pending_blocks, tier.quarantined_blocks) == (0, 0)
    assert await load(mine, "late") == [LATE]
    assert [block.block_hash async for block in mine.list_blocks()] == [block_hash("late")]
    assert (await tier_of(mine)).counters.stored == 1


async def test_the_slot_of_a_writer_that_only_stalls_returns_after_the_quarantine(
    start_node: StartNode, write: Write, client: Callable[[NodeProcess], Awaitable[NodeClient]]
) -> None:
    """And no sooner."""
    node = await start_node(**settings(SHORT))
    mine, writer = await client(node), await write(node)
    writer.send_signal(signal.SIGSTOP)
    await until(mine, 1, 10)

    took = await until(mine, 0, 20)

    assert SHORT - 1 < took < SHORT + 5
    assert writer.returncode is None
