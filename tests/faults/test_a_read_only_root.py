"""A container whose root and /tmp are read-only: nothing but the data directory is written to."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from kvtier.client import NodeClient
from tests.contract.filed import FILES, block_files, files_tier

from .conftest import StartNode
from .processes import ENVIRONMENT, ready

# All that a test writes is below one directory, of which only one part remains writable.
_SEAL = (
    'mount --bind "$0" "$0" && mount --bind "$1" "$1" && mount -o remount,bind,ro "$0" '
    "&& mount -o remount,bind,ro / && ! touch /kvtier 2>/dev/null "
    '&& ! touch "$0/kvtier" 2>/dev/null && shift && exec "$@"'
)
DATA, SIZE = bytes(range(256)), 64


@pytest.fixture(name="sealed")
def _sealed(tmp_path: Path) -> Sequence[str]:
    """What a command begins with that may write to the directory `data` alone."""
    data = tmp_path / "data"
    data.mkdir()
    prefix = ("unshare", "-rm", "sh", "-c", _SEAL, str(tmp_path), str(data))
    tried = subprocess.run([*prefix, "true"], check=False, capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(f"this machine lets no user seal its root (unshare -rm): {tried.stderr}")
    # Without what makes root more than other users.
    nobody = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs")
    return (*prefix, *nobody, "env", "-u", "HOME", f"TMPDIR={tmp_path}")


async def kvtier(sealed: Sequence[str], *arguments: str, stdin: bytes = b"") -> bytes:
    """Run the command line; it has to succeed, and say nothing of what it could not write."""
    process = await asyncio.create_subprocess_exec(
        *sealed,
        *(sys.executable, "-m", "kvtier.cli"),
        *arguments,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    )
    async with asyncio.timeout(30):
        out, err = await process.communicate(stdin)
    assert process.returncode == 0, err
    assert b"ead-only" not in err
    return out


@pytest.mark.slow
async def test_a_node_and_the_command_line_write_nowhere_else(
    start_node: StartNode, tmp_path: Path, sealed: Sequence[str]
) -> None:
    """Blocks are stored, found again after a restart, and read."""
    directory = tmp_path / "data" / "files"
    memory = {"name": "cpu0", "medium": "cpu", "capacity": "1MiB"}
    shm = {"shm_dir": str(tmp_path / "data")}
    node = await start_node(prefix=sealed, tiers=[files_tier(directory), {**memory, **shm}])
    where = ("-n", "sealed", "-e", node.endpoint)
    stored = await kvtier(
        sealed, "put", "-", "--block-bytes", str(SIZE), "-o", "json", *where, stdin=DATA
    )
    hashes = [block["block_hash"] for block in json.loads(stored)]
    assert await node.terminate() == 0
    node = await start_node(node)
    async with NodeClient(node.endpoint) as client:
        await ready(client)

    loaded = await kvtier(sealed, "load", *hashes, *where)
    tiers = json.loads(await kvtier(sealed, "get", "tiers", "-o", "json", "-e", node.endpoint))
    assert await node.terminate() == 0

    assert loaded == DATA
    assert [tier["name"] for tier in tiers] == [FILES, "cpu0"]
    assert len(block_files(directory)) == len(DATA) // SIZE
    assert "Traceback" not in node.log
    assert "ead-only" not in node.log
