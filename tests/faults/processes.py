"""Nodes as processes of their own, which a test may kill and start again."""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from pathlib import Path
from typing import Any

from kvtier.client import NodeClient, UnavailableError
from kvtier.v1.tier_pb2 import Node

START_SECONDS = 30.0
END_SECONDS = 20.0

ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("KVTIER_")}


async def start_server(folder: Path, config: dict[str, Any]) -> Process:
    """Start a server with a configuration; it need not come up."""
    path = folder / f"{config['node_id']}.yaml"
    path.write_text(json.dumps(config))  # YAML reads JSON
    command = (sys.executable, "-m", "kvtier.server", "--config", str(path))
    with path.with_suffix(".log").open("ab") as log:
        return await asyncio.create_subprocess_exec(
            *command, stdout=PIPE, stderr=log, env=ENVIRONMENT
        )


class NodeProcess:
    """A node that serves in a process of its own.

    Attributes:
        config: Its configuration, with the real address.
        process: The process.
    """

    def __init__(self, folder: Path, config: dict[str, Any], process: Process) -> None:
        self.config = config
        self.process = process
        self._folder = folder

    @property
    def endpoint(self) -> str:
        return str(self.config["listen"])

    @property
    def log(self) -> str:
        """Everything that the node wrote to its standard error."""
        return (self._folder / f"{self.config['node_id']}.log").read_text()

    @classmethod
    async def start(cls, folder: Path, config: dict[str, Any]) -> "NodeProcess":
        """Start a node and wait until it serves."""
        process = await start_server(folder, config)
        assert process.stdout is not None
        try:
            async with asyncio.timeout(START_SECONDS):
                line = await process.stdout.readline()
            serving = json.loads(line)
        except BaseException:
            await end(process)
            raise
        return cls(folder, {**config, "listen": serving["listen"]}, process)

    async def start_again(self) -> "NodeProcess":
        """Start the node on the address that it had."""
        assert self.process.returncode is not None
        return await self.start(self._folder, self.config)

    async def kill(self) -> None:
        """End the process by SIGKILL."""
        self.process.kill()
        await self.process.wait()

    async def terminate(self) -> int:
        """Ask the process to end, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(END_SECONDS):
            return await self.process.wait()


async def reached(client: NodeClient) -> Node:
    """Wait until a node that was started again answers, and return what it says of itself."""
    async with asyncio.timeout(START_SECONDS):
        while True:
            with suppress(UnavailableError):
                return await client.get_node()
            await asyncio.sleep(0.05)


async def end(process: Process) -> None:
    """End a process however it is."""
    if process.returncode is None:
        process.kill()
    await process.communicate()
