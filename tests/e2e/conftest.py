"""A real node, and the command line: in this process, or as one of its own."""

import asyncio
import io
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, suppress
from pathlib import Path
from subprocess import PIPE
from threading import Thread
from time import sleep
from typing import Any, NamedTuple

import pytest

from kvtier.cli.main import main
from kvtier.cli.nodes import RunningNode, running_node
from tests.contract.conftest import serve

__all__ = ["serve"]

MIB = 1 << 20
NODE = {
    "node_id": "node-a",
    "drain_timeout": 0,
    "tiers": [
        # With a slot size of their own the tiers do not care which test comes first.
        {"name": "gpu0", "medium": "gpu", "capacity": MIB, "device": "emulated", "slot_bytes": 64},
        {"name": "cpu0", "medium": "cpu", "capacity": 4 * MIB, "slot_bytes": 64},
    ],
}
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("KVTIER_")}


class Result(NamedTuple):
    """How a command ended."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()


StartCli = Callable[..., subprocess.Popen[bytes]]


StartNode = Callable[[Mapping[str, Any]], RunningNode]


@pytest.fixture(scope="module")
def start_node() -> Iterator[StartNode]:
    """Starts nodes, kept by an event loop of their own until the module's end."""
    loop, stack = asyncio.new_event_loop(), AsyncExitStack()
    thread = Thread(target=loop.run_forever)
    thread.start()

    def await_(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(60)

    def start(config: Mapping[str, Any]) -> RunningNode:
        node: RunningNode = await_(stack.enter_async_context(running_node(config)))
        return node

    try:
        yield start
    finally:
        await_(stack.aclose())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture(scope="module")
def server(start_node: StartNode) -> RunningNode:
    """A node with a small GPU tier and a host tier."""
    return start_node(NODE)


@pytest.fixture
def node(server: RunningNode) -> RunningNode:
    """The node, with empty tiers."""
    for tier in ("gpu0", "cpu0"):
        assert main(["clear", "--tier", tier, "--yes", "--force", "-e", server.endpoint]) == 0
    return server


@pytest.fixture
def dead() -> Iterator[str]:
    """An address where nobody listens, and nobody else can while the test runs."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def cli(
    capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Result]:
    """Runs `kvtier` to its end, in this process."""
    monkeypatch.delenv("KVTIER_ENDPOINTS", raising=False)

    def run(*arguments: object, stdin: bytes = b"") -> Result:
        capsysbinary.readouterr()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = main([str(argument) for argument in arguments])
        out, err = capsysbinary.readouterr()
        return Result(code, out, err.decode())

    return run


@pytest.fixture
def start_cli() -> Iterator[StartCli]:
    """Starts `kvtier` as a process with pipes; what still runs after the test is killed."""
    with ExitStack() as stack:

        def start(*arguments: object, **environment: str) -> subprocess.Popen[bytes]:
            command = [sys.executable, "-m", "kvtier.cli", *map(str, arguments)]
            process = subprocess.Popen(
                command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=ENVIRONMENT | environment
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        yield start


@pytest.fixture
def server_of() -> Callable[[int], int]:
    """Waits until a process has a server as its child, and returns the server's process id."""

    def find(parent: int) -> int:
        while True:
            for path in Path("/proc").glob("[0-9]*/stat"):
                with suppress(FileNotFoundError, ProcessLookupError):
                    fields = path.read_text().rpartition(")")[2].split()
                    command = path.with_name("cmdline").read_bytes()
                    if int(fields[1]) == parent and b"kvtier.server" in command:
                        return int(path.parts[2])
            sleep(0.05)

    return find
