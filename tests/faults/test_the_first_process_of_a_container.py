"""A node that is process 1 ends by signals, and leaves no dead process behind."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from kvtier.client import NodeClient
from tests.contract.support import namespace, run
from tests.waiting import until

from .conftest import StartNode
from .processes import ENVIRONMENT, NodeProcess, end

CONTAINER = ("unshare", "-r", "--pid", "--fork", "--mount-proc", "--kill-child")
# Leaves a child that ends soon to what comes in its place.
WITH_AN_ORPHAN = (*CONTAINER, "sh", "-c", 'sleep 0.1 & exec "$@"', "sh")
GRACE = 10.0
LONG = 3600

# A server whose tiers take for ever to open.
OPENING = """
import time
from kvtier.server.process.running import run

async def serve():
    print("opening", flush=True)
    time.sleep(60)

run(serve())
"""


@pytest.fixture(name="container")
def _container() -> tuple[str, ...]:
    """What a command begins with that is to be process 1."""
    tried = subprocess.run([*CONTAINER, "true"], check=False, capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(f"this machine gives no user a process 1 (unshare --pid): {tried.stderr}")
    return CONTAINER


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def stopped(node: NodeProcess, *signals: int) -> int:
    """Send signals to process 1, one when the one before is known of; return the exit code."""
    (pid,) = children(node.process.pid)
    for count, number in enumerate(signals, start=1):
        os.kill(pid, number)
        if count < len(signals):
            await until(lambda: '"draining"' in node.log)
    async with asyncio.timeout(GRACE):
        return await node.process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
async def test_a_signal_ends_it(
    start_node: StartNode, container: tuple[str, ...], number: int
) -> None:
    """With 0, though the system lets process 1 ignore signals that it does not handle."""
    node = await start_node(prefix=container)

    assert await stopped(node, number) == 0


@pytest.mark.slow
async def test_a_second_signal_hurries_it(
    start_node: StartNode, container: tuple[str, ...]
) -> None:
    """It does not wait for a lease that nobody ends."""
    node = await start_node(prefix=container, drain_timeout=LONG)
    async with NodeClient(node.endpoint) as client:
        fingerprint = await client.register_namespace(namespace())
        await client.prepare_store("cpu0", fingerprint, [run("a")])

        assert await stopped(node, signal.SIGTERM, signal.SIGTERM) == 0


@pytest.mark.slow
async def test_a_second_signal_ends_the_delay_of_a_stop(
    start_node: StartNode, container: tuple[str, ...]
) -> None:
    """What others have not heard of by then they will find out."""
    node = await start_node(prefix=container, drain_delay=300)
    (pid,) = children(node.process.pid)
    os.kill(pid, signal.SIGTERM)
    await asyncio.sleep(1)
    assert node.process.returncode is None

    assert await stopped(node, signal.SIGTERM) == 0


@pytest.mark.slow
@pytest.mark.usefixtures("container")
async def test_processes_that_are_left_to_it_do_not_stay_dead(start_node: StartNode) -> None:
    """It takes note of their end, as process 1 has to."""
    node = await start_node(prefix=WITH_AN_ORPHAN)
    (pid,) = children(node.process.pid)

    await until(lambda: children(pid) == [])

    assert await stopped(node, signal.SIGTERM) == 0


async def test_a_signal_ends_it_while_it_opens_its_tiers(container: tuple[str, ...]) -> None:
    """That may take minutes, and the grace period would be over."""
    process = await asyncio.create_subprocess_exec(
        *container, sys.executable, "-c", OPENING, stdout=PIPE, env=ENVIRONMENT
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(30):
            assert await process.stdout.readline() == b"opening\n"
        (pid,) = children(process.pid)
        os.kill(pid, signal.SIGTERM)
        async with asyncio.timeout(GRACE):
            assert await process.wait() == 0
    finally:
        await end(process)


async def test_a_signal_that_comes_while_it_loads_is_not_lost(container: tuple[str, ...]) -> None:
    """The system would drop it, and the grace period would pass."""
    command = ("kvtier", "serve", "--listen", "127.0.0.1:0")
    kvtier = Path(sys.executable).with_name(command[0])
    process = await asyncio.create_subprocess_exec(
        *container, str(kvtier), *command[1:], stdout=PIPE, stderr=PIPE, env=ENVIRONMENT
    )
    try:
        await until(lambda: children(process.pid), GRACE)
        (pid,) = children(process.pid)
        await until(lambda: waits_for_signals(pid), GRACE)
        os.kill(pid, signal.SIGTERM)
        async with asyncio.timeout(2 * GRACE):
            told, _ = await process.communicate()
    finally:
        await end(process)

    assert (process.returncode, told) == (0, b"")


def waits_for_signals(pid: int) -> bool:
    """Tell whether SIGTERM would wait to be handled."""
    told = Path(f"/proc/{pid}/status").read_text()
    (blocked,) = re.findall(r"^SigBlk:\s+(\w+)$", told, re.MULTILINE)
    return bool(int(blocked, 16) & 1 << signal.SIGTERM - 1)
