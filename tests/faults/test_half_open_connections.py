"""A connection that went dead without a word is noticed, and left for a new one."""

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kvtier.client import NodeClient, Watch
from kvtier.v1.event_service_pb2 import SourceState
from tests.contract.conftest import Serve
from tests.contract.folding import listed
from tests.contract.support import Serving, cpu_tier
from tests.contract.viewing import View

from . import relay as relay_program
from .processes import END_SECONDS, end
from .relay import Relay

# What docs/protocol.md says of a `Watch`, in seconds; and what a busy machine may add.
SILENCE = (3.0, 4.0)
NOISE = 3.0
LONGEST_PAUSE = 5.0

EVENTS = {"linger": 0, "heartbeat_interval": 1.0}


def states(view: View) -> list[str]:
    told = [each.state.source for each in view.messages if each.state.source]
    return [SourceState.Name(state).removeprefix("SOURCE_STATE_") for state in told]


def sequences(view: View) -> list[int]:
    return [batch.sequence for each in view.messages for batch in each.batches.batches]


@asynccontextmanager
async def viewing(client: NodeClient) -> AsyncIterator[tuple[View, Watch]]:
    """Follow a node by a watch with its own defaults; it is live when the body begins."""
    async with Watch(client) as watch:
        view = View(watch)
        try:
            await view.until(lambda: "LIVE" in states(view))
            yield view, watch
        finally:
            await view.leave()


@asynccontextmanager
async def producing(node: Serving) -> AsyncIterator[None]:
    """Store a block each moment until the body ends."""

    async def produce() -> None:
        block = 0
        while True:
            await node.store(block)
            block += 1
            await asyncio.sleep(0.02)

    task = asyncio.create_task(produce())
    try:
        yield
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def check_nothing_is_lost(view: View, node: Serving) -> None:
    """Every event came once and in order, and the view equals what the node holds."""
    await view.settle(node.client)
    told = sequences(view)
    assert told == list(range(told[0], told[0] + len(told)))
    assert sum(each.HasField("reset") for each in view.messages) == 1
    name = (await node.client.get_node()).node_id
    assert view.held(name) == set(await listed(node.client))
    assert view.index.bad_events == 0


@pytest.mark.slow
async def test_a_half_open_connection_is_left_for_a_new_one(serve: Serve) -> None:
    """The source is suspect in time, and then followed again at once; so go the calls."""
    node, loop = await serve(cpu_tier(64), events=EVENTS), asyncio.get_running_loop()
    async with (
        Relay(node.endpoint) as relay,
        NodeClient(relay.endpoint) as client,
        viewing(client) as (view, watch),
    ):
        async with producing(node):
            await view.until(lambda: len(sequences(view)) > 20)
            connections = relay.connections

            relay.stall()
            stalled = loop.time()
            await view.until(lambda: "SUSPECT" in states(view))
            silence = loop.time() - stalled
            await view.until(lambda: states(view)[-1] == "LIVE")
            absence = loop.time() - stalled
            await client.get_node()
        await check_nothing_is_lost(view, node)

    assert SILENCE[0] - 0.5 < silence < SILENCE[1] + NOISE
    assert absence < SILENCE[1] + NOISE + 1
    assert states(view) == ["CONNECTING", "SNAPSHOT", "LIVE", "SUSPECT", "LIVE"]
    assert relay.connections == connections + 1
    assert (watch.breaks, watch.gaps) == (1, 0)


@asynccontextmanager
async def relay_process(target: str) -> AsyncIterator[tuple[Process, str]]:
    """Run a relay as a process of its own; give its endpoint too."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(relay_program.__file__), target, stdout=PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(END_SECONDS):
            line = await process.stdout.readline()
        yield process, line.decode().strip()
    finally:
        await end(process)


@pytest.mark.slow
async def test_a_path_that_passes_nothing_for_a_while(serve: Serve) -> None:
    """While new connections hang as well the source is down; then it is found again by itself."""
    node, loop = await serve(cpu_tier(64), events=EVENTS), asyncio.get_running_loop()
    async with (
        relay_process(node.endpoint) as (process, endpoint),
        NodeClient(endpoint) as client,
        viewing(client) as (view, _),
    ):
        async with producing(node):
            await view.until(lambda: len(sequences(view)) > 20)

            process.send_signal(signal.SIGSTOP)
            await view.until(lambda: "DOWN" in states(view))
            process.send_signal(signal.SIGCONT)
            passing = loop.time()
            await view.until(lambda: states(view)[-1] == "LIVE")
            took = loop.time() - passing
        await check_nothing_is_lost(view, node)

    assert states(view) == ["CONNECTING", "SNAPSHOT", "LIVE", "SUSPECT", "DOWN", "LIVE"]
    assert took < SILENCE[1] + LONGEST_PAUSE + NOISE


@pytest.mark.slow
async def test_an_idle_stream_is_not_cut(serve: Serve) -> None:
    """A quiet node with the slowest heartbeat that it may have is live all along."""
    node = await serve(cpu_tier(64), events=EVENTS)
    async with NodeClient(node.endpoint) as client, viewing(client) as (view, watch):
        await view.until(
            lambda: sum(each.HasField("progress") for each in view.messages) >= 2 * SILENCE[1]
        )

    assert states(view) == ["CONNECTING", "SNAPSHOT", "LIVE"]
    assert watch.breaks == 0
