"""A node at unix:/PATH is alone there, for its own user, and deletes nothing that is not its."""

import asyncio
import json
import os
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from kvtier.client import BlockingNodeClient, NodeClient
from kvtier.server.config import NodeConfig

from .conftest import StartNode, StartProxy
from .processes import ENVIRONMENT, NodeProcess, end, refused, start_server

# One that lets everybody do everything.
LOOSE = ("sh", "-c", 'umask 0; exec "$@"', "sh")


@pytest.fixture(name="path")
def _path() -> Iterator[Path]:
    """Where a socket may be: a path short enough for one."""
    with TemporaryDirectory(prefix="kvtier-") as folder:
        yield Path(folder) / "kv.sock"


def mode_of(path: Path) -> int:
    """Return the kind and the permissions of what is at a path; 0 for nothing."""
    return path.lstat().st_mode if os.path.lexists(path) else 0


async def turned_away(folder: Path, path: Path) -> str:
    """Start a node that must not come up at a path; return what it says."""
    config = {"node_id": f"second-{os.getpid()}", "listen": f"unix:{path}"}
    tier = {"name": "cpu0", "medium": "cpu", "capacity": "1MiB", "shm_dir": str(folder)}
    code, told = await refused(folder, {**config, "tiers": [tier]})
    assert code == 1
    assert f"unix:{path}" in told
    return told


async def test_a_node_is_reached_by_its_user_and_group_only(
    start_node: StartNode, path: Path
) -> None:
    """Whatever the process's umask; clients and the command line find it, and a stop removes it."""
    node = await start_node(listen=f"unix:{path}", prefix=LOOSE)
    mode = mode_of(path)

    async with NodeClient(node.endpoint) as client:
        about = await client.get_node()
    command = (sys.executable, "-m", "kvtier.cli", "get", "tiers", "-o", "json")
    process = await asyncio.create_subprocess_exec(
        *(*command, "-e", node.endpoint), stdout=asyncio.subprocess.PIPE, env=ENVIRONMENT
    )
    out, _ = await process.communicate()
    code = await node.terminate()

    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o660
    assert about.node_id == node.config["node_id"]
    assert [tier["name"] for tier in json.loads(out)] == ["cpu0"]
    assert code == 0
    assert mode_of(path) == 0


async def test_the_socket_of_a_dead_node_is_taken_over(start_node: StartNode, path: Path) -> None:
    """A node that was killed leaves it, and starts again there."""
    node = await start_node(listen=f"unix:{path}")
    await node.kill()
    assert stat.S_ISSOCK(mode_of(path))

    again = await start_node(node)

    async with NodeClient(again.endpoint) as client:
        assert (await client.get_node()).node_id == node.config["node_id"]


async def test_the_socket_of_a_live_node_is_left_to_it(
    start_node: StartNode, path: Path, tmp_path: Path
) -> None:
    """A second one is turned away with the reason, and the first stays reachable."""
    node = await start_node(listen=f"unix:{path}")
    async with NodeClient(node.endpoint) as client:
        first = await client.get_node()

        told = await turned_away(tmp_path, path)

        async with NodeClient(node.endpoint) as newcomer:
            assert (await newcomer.get_node()).incarnation == first.incarnation
    assert "a server listens there" in told


async def test_of_many_that_start_at_once_one_serves(path: Path, tmp_path: Path) -> None:
    """The socket of a dead node goes to exactly one of them."""
    dead = await start_one(tmp_path, path, "dead")
    await dead.kill()
    starts = [start_server(tmp_path, config_of(tmp_path, path, f"of-{n}")) for n in range(4)]
    processes = await asyncio.gather(*starts)
    try:
        async with asyncio.timeout(60):
            lines = [asyncio.ensure_future(process.stdout.readline()) for process in processes]  # type: ignore[union-attr]
            told = await asyncio.gather(*lines)
        serving = [json.loads(line)["node_id"] for line in told if line]
        async with NodeClient(f"unix:{path}") as client:
            reached = (await client.get_node()).node_id
    finally:
        for process in processes:
            await end(process)

    assert serving == [reached]


def config_of(folder: Path, path: Path, name: str) -> dict[str, object]:
    tier = {"name": "cpu0", "medium": "cpu", "capacity": "1MiB", "shm_dir": str(folder)}
    return {"node_id": f"{name}-{os.getpid()}", "listen": f"unix:{path}", "tiers": [tier]}


async def start_one(folder: Path, path: Path, name: str) -> NodeProcess:
    return await NodeProcess.start(folder, config_of(folder, path, name))


def precious(path: Path) -> Path:
    path.write_text("precious")
    return path


def a_link(path: Path) -> Path:
    link = path.with_name("link")
    link.symlink_to(precious(path))
    return link


def a_folder(path: Path) -> Path:
    path.mkdir()
    return path


@pytest.mark.parametrize("lay", [precious, a_link, a_folder])
async def test_what_is_no_socket_stays(
    path: Path, tmp_path: Path, lay: Callable[[Path], Path]
) -> None:
    """A file, what a link leads to, and a directory."""
    there = lay(path)
    before = mode_of(there), mode_of(path)

    assert "is no socket" in await turned_away(tmp_path, there)

    assert (mode_of(there), mode_of(path)) == before


async def test_a_directory_that_is_missing_is_told(path: Path, tmp_path: Path) -> None:
    """The line says which one."""
    missing = path.parent / "missing"

    told = await turned_away(tmp_path, missing / "kv.sock")

    assert f"{missing} is no directory; make it" in told


async def test_a_proxy_stands_behind_sockets_and_at_one(
    start_node: StartNode, start_proxy: StartProxy, path: Path
) -> None:
    """It follows a node at a socket, and is reached at another, without a word of security."""
    node = await start_node(listen=f"unix:{path}")
    proxy = await start_proxy(node.endpoint, listen=f"unix:{path.with_name('proxy.sock')}")

    def ask() -> str:
        with BlockingNodeClient(proxy.endpoint) as client:
            return client.get_node().node_id

    assert await asyncio.to_thread(ask) == proxy.config["node_id"]
    assert stat.S_IMODE(mode_of(path.with_name("proxy.sock"))) == 0o660
    assert await proxy.terminate() == 0
    assert mode_of(path.with_name("proxy.sock")) == 0


@pytest.mark.parametrize(
    "listen", ["unix:", "unix:kv.sock", "unix:///run/kv.sock", "unix:/run/", f"unix:/{'a' * 107}"]
)
def test_a_path_that_cannot_be_one_is_refused_before_the_start(listen: str) -> None:
    """By the check of a configuration, too."""
    with pytest.raises(ValueError, match="unix:/"):
        NodeConfig.model_validate({"listen": listen})
