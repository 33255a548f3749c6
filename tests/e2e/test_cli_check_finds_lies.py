"""What a node's events and its listing disagree on is found, and nothing else."""

import asyncio
import json
import random
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kvtier.v1.event_service_pb2 import WatchEventsResponse
from kvtier.v1.listing_pb2 import (
    ListBlocksResponse,
)
from tests.contract.conftest import Serve
from tests.contract.support import Serving, block_hash, blocks_of, cpu_tier

from .conftest import ENVIRONMENT
from .lying import LyingNode

PATIENCE = 30.0
A, B, C = map(block_hash, "abc")
StartCheck = Callable[..., Awaitable[Process]]
Lie = Callable[[WatchEventsResponse], None]


@pytest.fixture(name="check")
async def _check() -> AsyncIterator[StartCheck]:
    """Starts `kvtier check`; what still runs after the test is killed."""
    started: list[Process] = []

    async def start(endpoint: str, *arguments: object) -> Process:
        command = (sys.executable, "-m", "kvtier.cli", "check", "-e", endpoint, "-o", "jsonl")
        process = await asyncio.create_subprocess_exec(
            *command, *map(str, arguments), stdout=PIPE, stderr=PIPE, env=ENVIRONMENT
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def _row(process: Process) -> dict[str, Any]:
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE):
        row: dict[str, Any] = json.loads(await process.stdout.readline())
    return row


async def _end(process: Process) -> tuple[int, list[dict[str, Any]], str]:
    async with asyncio.timeout(PATIENCE):
        out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, [json.loads(line) for line in out.splitlines()], err.decode()


def _without(kind: str, block: bytes) -> Lie:
    """Drop what batches say of one block."""

    def lie(message: WatchEventsResponse) -> None:
        for batch in message.batches.batches:
            events = getattr(batch, kind)
            kept = [event for event in events if block not in event.block_hashes]
            del events[:]
            events.extend(kept)

    return lie


def _with(block: bytes) -> Lie:
    """Tell with every store of a block that another one was stored too."""

    def lie(message: WatchEventsResponse) -> None:
        for batch in message.batches.batches:
            for stored in batch.stored:
                if A in stored.block_hashes:
                    made_up = batch.stored.add()
                    made_up.CopyFrom(stored)
                    made_up.block_hashes = block
                    return

    return lie


def _elsewhere(message: WatchEventsResponse) -> None:
    """Tell another position of every stored run."""
    for batch in message.batches.batches:
        for stored in batch.stored:
            stored.start_positions[:] = [16]
            stored.parent_block_hashes = C


def _again(message: WatchEventsResponse) -> None:
    """Tell every store twice."""
    for batch in list(message.batches.batches):
        for stored in list(batch.stored):
            batch.stored.add().CopyFrom(stored)


@pytest.mark.parametrize(
    ("lie", "what", "block"),
    [
        (_without("stored", A), "only in listing", A),
        (_without("removed", B), "only in events", B),
        (_with(C), "only in events", C),
        (_elsewhere, "unlike", A),
        (_again, "stored again at 3", A),
    ],
    ids=["a lost store", "a lost removal", "a made-up store", "another position", "a store twice"],
)
async def test_an_event_that_is_not_true_is_found(
    serve: Serve, check: StartCheck, lie: Lie, what: str, block: bytes
) -> None:
    """A check that goes on ends with exit code 6 and shows the block."""
    node = await serve(cpu_tier(4))
    await node.store("b")
    async with LyingNode(node.endpoint, events=lie) as liar:
        process = await check(liar.endpoint, "--for", 20)
        before = await _row(process)
        await node.client.delete(node.namespace, [blocks_of("b")])
        await node.store("a")
        code, rows, err = await _end(process)

    assert (before["verdict"], before["events"]) == ("equal", 1)
    assert code == 6, (rows, err)
    assert (rows[-1]["verdict"], rows[-1]["examples"][0]["difference"]) == ("differs", what)
    assert rows[-1]["examples"][0]["block_hash"] == block.hex()
    assert err.startswith(f"error: {liar.endpoint}: events and listing differ in tier cpu0")
    assert err.count("\n") == 1


async def test_a_snapshot_that_lacks_a_block_is_found(serve: Serve, check: StartCheck) -> None:
    """What was lost before the check began is found at once, with the number that is off."""

    def lie(message: WatchEventsResponse) -> None:
        for stored in message.snapshot.stored:
            stored.block_hashes = stored.block_hashes.replace(B, b"")

    node = await serve(cpu_tier(4))
    await node.store("a", "b")
    async with LyingNode(node.endpoint, events=lie) as liar:
        code, (row,), _ = await _end(await check(liar.endpoint))

    assert (code, row["only_in_listing"], row["miscounts"]) == (6, 1, 1)
    assert row["examples"][0]["block_hash"] == B.hex()
    assert row["examples"][0]["by_listing"]["parent_block_hash"] == A.hex()


async def test_a_listing_that_lacks_a_block_is_found(serve: Serve, check: StartCheck) -> None:
    """The listing is no more to be trusted than the events."""

    def lie(page: ListBlocksResponse) -> None:
        kept = [block for block in page.blocks if block.block_hash != A]
        del page.blocks[:]
        page.blocks.extend(kept)

    node = await serve(cpu_tier(4))
    await node.store("a", "b")
    async with LyingNode(node.endpoint, listing=lie) as liar:
        code, (row,), _ = await _end(await check(liar.endpoint))

    assert (code, row["only_in_events"], row["events"], row["listing"]) == (6, 1, 2, 1)


async def _write(node: Serving, written: asyncio.Event) -> None:
    """Store blocks without end in a tier that is far too small for them, some again and again."""
    chance = random.Random(7)
    for turn in range(1 << 30):
        fresh = [f"fresh-{turn}-{place}" for place in range(8)]
        again = chance.sample(range(96), 8)
        await node.store(*fresh)
        for block in again:
            await node.store(block)
        if turn == 4:
            written.set()


@asynccontextmanager
async def _under_load(node: Serving) -> AsyncIterator[None]:
    written = asyncio.Event()
    writing = asyncio.create_task(_write(node, written))
    try:
        await written.wait()
        yield
    finally:
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)


@pytest.mark.slow
async def test_a_node_at_work_is_equal(serve: Serve, check: StartCheck) -> None:
    """A writer that evicts all the time makes no difference, in any of several checks."""
    node = await serve(cpu_tier(64))

    async with _under_load(node), LyingNode(node.endpoint) as honest:
        code, rows, err = await _end(await check(honest.endpoint, "--for", 4))
        tier = await node.tier()

    assert (code, err) == (0, ""), rows
    assert len(rows) > 1
    assert {row["verdict"] for row in rows} == {"equal"}
    assert tier.counters.evicted > 100


@pytest.mark.slow
async def test_a_lie_is_found_at_a_node_at_work(serve: Serve, check: StartCheck) -> None:
    """One lost store among all the others is enough."""
    node = await serve(cpu_tier(64), cpu_tier(4, name="cpu1"))

    async with (
        _under_load(node),
        LyingNode(node.endpoint, events=_without("stored", A)) as liar,
    ):
        process = await check(liar.endpoint, "--for", 20)
        await _row(process)
        await node.store("a", tier="cpu1")
        code, rows, _ = await _end(process)

    wrong = [row for row in rows if row["verdict"] == "differs"]
    assert code == 6
    assert [(row["tier"], row["only_in_listing"]) for row in wrong] == [("cpu1", 1)]
