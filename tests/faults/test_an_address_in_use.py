"""A server never shares its address: it says so and leaves, and nobody else notices."""

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kvtier.client import NodeClient
from tests.contract.support import cpu_tier

from .conftest import StartNode
from .processes import refused

CALLS = 200


async def refused_start(folder: Path, listen: str, **settings: object) -> tuple[int, str]:
    """Start a server that must not come up; return its exit code and its last line."""
    name = f"intruder-{os.getpid()}"
    config = {"node_id": name, "listen": listen, "tiers": [cpu_tier(4)], **settings}
    return await refused(folder, config)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0", "[::]"])
async def test_a_second_server_is_turned_away(
    start_node: StartNode, tmp_path: Path, host: str
) -> None:
    """However it names the address; the first one answers every call meanwhile."""
    node = await start_node()
    port = node.endpoint.rpartition(":")[2]
    async with NodeClient(node.endpoint) as client:
        first = await client.get_node()
        starting = asyncio.create_task(
            refused_start(tmp_path, f"{host}:{port}", insecure=host in {"0.0.0.0", "[::]"})
        )
        answers = [await client.get_node() for _ in range(CALLS)]
        code, told = await starting
        answers += [await client.get_node() for _ in range(CALLS)]

    assert code == 1
    assert f"{host}:{port}" in told
    assert {answer.incarnation for answer in answers} == {first.incarnation}


@contextmanager
def another_program(*, shared: bool) -> Iterator[str]:
    """Hold a port as a program that is no server of ours does."""
    with socket.socket() as held:
        if shared:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(("127.0.0.1", 0))
        held.listen()
        yield f"127.0.0.1:{held.getsockname()[1]}"


@pytest.mark.parametrize("shared", [False, True], ids=["alone", "ready to share"])
async def test_a_port_of_another_program_is_left_alone(tmp_path: Path, shared: bool) -> None:
    """Also when that program would let others listen beside it."""
    with another_program(shared=shared) as address:
        code, told = await refused_start(tmp_path, address)

    assert code == 1
    assert address in told
    assert "--listen" in told
