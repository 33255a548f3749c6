"""The network of the lab does what its tests take for granted, and is gone with its process."""

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.faults.processes import end
from tests.waiting import until

from .lab import PORT, Host, Lab

_ECHO = """
import socket, sys
with socket.create_server((sys.argv[1], int(sys.argv[2]))) as server:
    print("listening", flush=True)
    connection = server.accept()[0]
    while data := connection.recv(1024):
        connection.sendall(data)
"""
_MAKE_ONE = """
import subprocess
from tests.netns import namespaces
from tests.netns.lab import Lab
namespaces.leave_for_a_new_one()
lab = Lab()
print(subprocess.Popen([*lab.add().prefix, "sleep", "600"]).pid, flush=True)
input()
"""
_ROOT = Path(__file__).parents[2]
# Longer than a packet and its answer take, in seconds.
A_WHILE = 1.0


@asynccontextmanager
async def echo(host: Host) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Connect to a server on a host that sends back what it gets."""
    command = [*host.prefix, sys.executable, "-c", _ECHO, host.address, str(PORT)]
    server = await asyncio.create_subprocess_exec(*command, stdout=PIPE)
    try:
        assert server.stdout is not None
        await server.stdout.readline()
        reader, writer = await asyncio.open_connection(host.address, PORT)
        yield reader, writer
        writer.close()
    finally:
        await end(server)


def network_of(process: str) -> Path | None:
    """Return the network of a process; None once it has ended."""
    try:
        return Path(f"/proc/{process}/ns/net").readlink()
    except FileNotFoundError:
        return None


@pytest.mark.parametrize(("break_it", "mend_it"), [(Host.cut, Host.heal), (Host.unplug, Host.plug)])
async def test_a_broken_link_is_silent_and_the_connection_outlives_it(
    lab: Lab, break_it: Callable[[Host], None], mend_it: Callable[[Host], None]
) -> None:
    """Nothing comes and nobody is told; what was sent meanwhile arrives once the link is back."""
    host = lab.add()
    async with echo(host) as (reader, writer):
        writer.write(b"before")
        before = await reader.readexactly(6)

        break_it(host)
        writer.write(b"meanwhile")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(A_WHILE):
                await reader.read(1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(A_WHILE):
                await asyncio.open_connection(host.address, PORT)
        mend_it(host)
        after = await reader.readexactly(9)

    assert (before, after) == (b"before", b"meanwhile")


async def test_what_runs_on_a_host_ends_with_a_process_that_is_killed(lab: Lab) -> None:
    """However a test ends, it leaves no process behind, and with that no network."""
    maker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _MAKE_ONE), stdin=PIPE, stdout=PIPE, cwd=_ROOT
    )
    assert maker.stdout is not None
    running = (await maker.stdout.readline()).decode().strip()
    assert network_of(running) not in {None, network_of("self")}

    await end(maker)

    await until(lambda: network_of(running) is None)
