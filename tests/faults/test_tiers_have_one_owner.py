"""A second server never shares a directory or a prefix: it says so and leaves."""

import asyncio
import re
from pathlib import Path

import pytest

from kvtier.client import NodeClient
from tests.contract.filed import FILES, files_tier
from tests.contract.support import blocks_of, namespace, payload, payloads, run
from tests.s3.relay import Relay
from tests.s3.shelves import Place

from .conftest import StartNode
from .objects import OBJECTS, WITH_CREDENTIALS, objects_tier
from .processes import NodeProcess, ready, refused


async def begin(node: NodeProcess, tier: str) -> bytes:
    """Store the first blocks; return their namespace."""
    async with NodeClient(node.endpoint) as client:
        await ready(client)
        fingerprint = await client.register_namespace(namespace())
        await client.store(tier, fingerprint, [run(1, 2)], payloads(1, 2))
    return fingerprint


async def use(node: NodeProcess, tier: str, done: asyncio.Event) -> None:
    """Store and read blocks until somebody says that it is enough, and once more."""
    async with NodeClient(node.endpoint) as client:
        await ready(client)
        fingerprint = await client.register_namespace(namespace())
        block, last = 100, False
        while not last:
            last = done.is_set()
            await client.store(tier, fingerprint, [run(block)], [payload(block)])
            report = await client.load(tier, fingerprint, [blocks_of(1, 2, block)])
            assert list(report.payloads) == payloads(1, 2, block)
            block += 1
            await asyncio.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["same", "other"])
async def test_a_directory_is_not_shared(start_node: StartNode, tmp_path: Path, name: str) -> None:
    """Whatever the second server is called; the first one notices nothing."""
    directory, done = tmp_path / "files", asyncio.Event()
    node = await start_node(tiers=[files_tier(directory)])
    await begin(node, FILES)
    own = node.config["node_id"]
    folder = tmp_path / "second"
    folder.mkdir()

    using = asyncio.create_task(use(node, FILES, done))
    second = {**node.config, "node_id": own if name == "same" else "b", "listen": "127.0.0.1:0"}
    code, told = await refused(folder, second)
    done.set()
    await using

    assert code == 1
    assert f"{directory} is held by another process ({node.process.pid})" in told
    assert "Traceback" not in told
    await node.kill()
    node = await start_node(node)
    await use(node, FILES, done)


@pytest.mark.slow
async def test_a_prefix_is_not_shared(
    start_node: StartNode, tmp_path: Path, place: Place, relay: Relay
) -> None:
    """Another node is refused, while the first one is there and when it is gone."""
    done = asyncio.Event()
    node = await start_node(prefix=WITH_CREDENTIALS, tiers=[objects_tier(place, relay)])
    await begin(node, OBJECTS)
    second = {**node.config, "node_id": "second", "listen": "127.0.0.1:0"}

    using = asyncio.create_task(use(node, OBJECTS, done))
    answers = [await refused(tmp_path, second, WITH_CREDENTIALS)]
    done.set()
    await using
    await node.kill()
    answers.append(await refused(tmp_path, second, WITH_CREDENTIALS))
    node = await start_node(node)
    await use(node, OBJECTS, done)

    for code, told in answers:
        assert code == 1
        assert re.search(f"belongs to node {node.config['node_id']}, tier {OBJECTS}", told)
        assert "give the tier another prefix" in told
