"""Nodes of the command's own: server processes that end with it."""

import asyncio
import json
import os
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, NamedTuple

from kvtier.cli.exit import CommandError

_START_TIMEOUT = 30.0
_STOP_TIMEOUT = 5.0
_MEMORY = "/dev/shm"  # noqa: S108 - where memory files belong; the folder there is private
_SERVER_NEEDS = ("grpc_health", "numpy", "pydantic", "yaml")


class RunningNode(NamedTuple):
    """A node that serves."""

    node_id: str
    endpoint: str


def require_server() -> None:
    """Check that what a server needs is installed.

    Raises:
        CommandError: When it is not, saying how to install it.
    """
    missing = [name for name in _SERVER_NEEDS if find_spec(name) is None]
    if missing:
        what = f"a node cannot run here: {', '.join(missing)} missing"
        raise CommandError("kvtier", what, "install it with: pip install 'kvtier[server]'")


@asynccontextmanager
async def running_node(config: Mapping[str, Any]) -> AsyncIterator[RunningNode]:
    """Start a server with a configuration, and end it on every way out.

    Args:
        config: The node's configuration, by the keys of its file, with its tiers. It listens on
            a free port of the loopback interface unless it says otherwise.

    Raises:
        CommandError: When the server does not come up.
    """
    require_server()
    with _files(config) as (path, log):
        process = await _start(path, log)
        try:
            yield await _serving(process, log)
        finally:
            await _stop(process)


@contextmanager
def _files(config: Mapping[str, Any]) -> Iterator[tuple[Path, IO[bytes]]]:
    """Give the path of a written configuration, and a file for the node's log."""
    memory = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="kvtier-", dir=memory) as folder:
        # A directory of its own for the tiers' memory lets nodes of equal names run side by side.
        tiers = [
            {"shm_dir": folder, **tier} if tier["medium"] == "cpu" else tier
            for tier in config["tiers"]
        ]
        path = Path(folder, "node.yaml")
        # YAML reads JSON.
        path.write_text(json.dumps({"listen": "127.0.0.1:0", **config, "tiers": tiers}))
        with Path(folder, "log").open("w+b") as log:
            yield path, log


async def _start(config: Path, log: IO[bytes]) -> Process:
    # The user's own KVTIER_ settings are not for this node, and neither is a Ctrl-C at the
    # terminal: it comes to this process, which then ends the node.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("KVTIER_")}
    command = (sys.executable, "-m", "kvtier.server", "--config", str(config))
    return await asyncio.create_subprocess_exec(
        *command, stdin=DEVNULL, stdout=PIPE, stderr=log, env=environment, start_new_session=True
    )


async def _serving(process: Process, log: IO[bytes]) -> RunningNode:
    assert process.stdout is not None
    try:
        async with asyncio.timeout(_START_TIMEOUT):
            line = await process.stdout.readline()
    except TimeoutError:
        what = f"the node did not start within {_START_TIMEOUT:g} s"
        raise CommandError("kvtier", what, _last_line(log)) from None
    if not line:
        raise CommandError("kvtier", "the node did not start", _last_line(log))
    fields = json.loads(line)
    return RunningNode(fields["node_id"], fields["listen"])


async def _stop(process: Process) -> None:
    try:
        if process.returncode is None:
            process.terminate()
            async with asyncio.timeout(_STOP_TIMEOUT):
                await process.wait()
    except (TimeoutError, ProcessLookupError):
        pass
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def _last_line(log: IO[bytes]) -> str:
    log.seek(0)
    lines = log.read().decode(errors="replace").strip().splitlines()
    return f"its last words: {lines[-1]}" if lines else ""
