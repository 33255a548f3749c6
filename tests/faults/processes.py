"""Nodes as processes of their own, which a test may kill and start again."""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from kvtier.client import NodeClient, UnavailableError
from kvtier.v1.event_service_pb2 import TierState
from kvtier.v1.tier_pb2 import Node

START_SECONDS = 30.0
END_SECONDS = 20.0
SERVER = "kvtier.server"

ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("KVTIER_")}


async def start_server(
    folder: Path,
    config: dict[str, Any],
    prefix: Sequence[str] = (),
    environment: Mapping[str, str] = ENVIRONMENT,
    module: str = SERVER,
) -> Process:
    """Start a server with a configuration, by a command with a prefix; it need not come up."""
    path = folder / f"{config['node_id']}.yaml"
    path.write_text(json.dumps(config))  # YAML reads JSON
    command = (*prefix, sys.executable, "-m", module, "--config", str(path))
    with path.with_suffix(".log").open("ab") as log:
        return await asyncio.create_subprocess_exec(
            *command, stdout=PIPE, stderr=log, env=environment
        )


class NodeProcess:
    """A node, or a proxy, that serves in a process of its own.

    Attributes:
        config: Its configuration, with the real address.
        process: The process.
    """

    def __init__(
        self, folder: Path, config: dict[str, Any], process: Process, prefix: Sequence[str] = ()
    ) -> None:
        self.config = config
        self.process = process
        self._folder = folder
        self._prefix = prefix

    @property
    def endpoint(self) -> str:
        return str(self.config["listen"])

    @property
    def log(self) -> str:
        """Everything that the node wrote to its standard error."""
        return (self._folder / f"{self.config['node_id']}.log").read_text()

    @classmethod
    async def start(
        cls,
        folder: Path,
        config: dict[str, Any],
        prefix: Sequence[str] = (),
        environment: Mapping[str, str] = ENVIRONMENT,
        module: str = SERVER,
    ) -> "NodeProcess":
        """Start a node and wait until it serves."""
        process = await start_server(folder, config, prefix, environment, module)
        assert process.stdout is not None
        try:
            async with asyncio.timeout(START_SECONDS):
                line = await process.stdout.readline()
            serving = json.loads(line)
        except BaseException:
            await end(process)
            raise
        return cls(folder, {**config, "listen": serving["listen"]}, process, prefix)

    async def start_again(self) -> "NodeProcess":
        """Start the node on the address that it had."""
        assert self.process.returncode is not None
        return await self.start(self._folder, self.config, self._prefix)

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


async def recovered(client: NodeClient) -> None:
    """Wait until a node knows what its tiers hold."""
    async with asyncio.timeout(START_SECONDS):
        while True:
            states = {tier.state for tier in await client.list_tiers()}
            if TierState.TIER_STATE_RECOVERING not in states:
                return
            await asyncio.sleep(0.02)


async def ready(client: NodeClient) -> None:
    """Wait until a node that was started again knows what its tiers hold, and all are well."""
    await reached(client)
    async with asyncio.timeout(START_SECONDS):
        while not await _all_are_well(client):  # noqa: ASYNC110 - it is polled
            await asyncio.sleep(0.02)


async def _all_are_well(client: NodeClient) -> bool:
    return {tier.state for tier in await client.list_tiers()} == {TierState.TIER_STATE_READY}


async def refused(
    folder: Path, config: dict[str, Any], prefix: Sequence[str] = (), module: str = SERVER
) -> tuple[int, str]:
    """Start a server that must not come up; return its exit code and its last line."""
    process = await start_server(folder, config, prefix, module=module)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(START_SECONDS):
            assert await process.stdout.read() == b""
            code = await process.wait()
    finally:
        await end(process)
    log = (folder / f"{config['node_id']}.log").read_text()
    return code, log.strip().splitlines()[-1]


async def end(process: Process) -> None:
    """End a process however it is."""
    if process.returncode is None:
        process.kill()
    await process.communicate()
