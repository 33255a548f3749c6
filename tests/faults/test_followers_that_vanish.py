"""A follower that is gone is noticed at once, however it went, and nothing of it stays behind."""

import asyncio
import resource
import sys
import threading
from asyncio.subprocess import PIPE
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from tests.contract.conftest import Serve
from tests.contract.support import NO_HEARTBEATS, cpu_tier
from tests.contract.writing import writing
from tests.waiting import until

from . import crowd as crowd_program
from .crowd import crowd
from .processes import END_SECONDS, end
from .relay import Relay

CROWD = 100
# No heartbeat and, on an idle node, no event tells the node that nobody listens any more.
SETTINGS = {
    "events": NO_HEARTBEATS,
    "limits": {"followers": CROWD, "snapshots": CROWD},
}


async def cancel(endpoint: str) -> None:
    async with crowd(endpoint, CROWD) as calls:
        for call in calls:
            call.cancel()


async def close_the_connection(endpoint: str) -> None:
    async with crowd(endpoint, CROWD):
        pass


async def reset_the_connection(endpoint: str) -> None:
    async with Relay(endpoint) as relay, crowd(relay.endpoint, CROWD):
        relay.reset()


async def die(endpoint: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(crowd_program.__file__), endpoint, str(CROWD), stdout=PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(END_SECONDS):
            assert await process.stdout.readline() == b"following\n"
        process.kill()
    finally:
        await end(process)


WAYS = [cancel, close_the_connection, reset_the_connection, die]


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
@pytest.mark.parametrize("leave", WAYS, ids=lambda way: way.__name__)
async def test_followers_that_vanish_leave_nothing(
    serve: Serve, leave: Callable[[str], Awaitable[None]], busy: bool
) -> None:
    """A crowd as large as the limit comes and goes five times; no task or thread stays."""
    node = await serve(cpu_tier(64), **SETTINGS)
    await node.store(1)
    tasks, threads = len(asyncio.all_tasks()), threading.active_count()
    async with AsyncExitStack() as stack:
        if busy:
            await stack.enter_async_context(writing(node, "cpu0"))
        for _ in range(5):
            await leave(node.endpoint)
            await until(lambda: not node.node.followers)
        assert (await node.client.get_node()).followers == 0

    await until(lambda: len(asyncio.all_tasks()) <= tasks)
    assert threading.active_count() <= threads + 1
    assert await cpu_seconds_in(0.5) < 0.25


async def cpu_seconds_in(seconds: float) -> float:
    """Return the processor time that this process takes in a while of doing nothing."""
    before = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    await asyncio.sleep(seconds)
    return sum(resource.getrusage(resource.RUSAGE_SELF)[:2]) - before
