"""What a tier of files takes of the disk is bounded all the time, whatever is stored, and when."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from kvtier.client import NodeClient
from tests.contract.filed import FILES, block_files, files_tier
from tests.contract.following import Following, following
from tests.contract.support import blocks_of, hash_set, namespace, payload, run

from .conftest import StartNode
from .disks import bytes_of, strangers
from .processes import NodeProcess, ready

SIZE = 60_000
# With its header a block takes that many bytes of whole blocks of the file system.
COST = 61_440
NAMESPACE = namespace("bounded", block_bytes=[SIZE])


def content(block: object) -> bytes:
    return payload(block, SIZE)


@contextmanager
def sampling(directory: Path) -> Iterator[list[int]]:
    """Measure again and again what files take of the disk; the context is what was measured."""
    samples, enough = [0], threading.Event()

    def sample() -> None:
        while not enough.wait(0.001):
            files = [
                path for part in ("blocks", "partial") for path in (directory / part).rglob("*-*")
            ]
            samples.append(bytes_of(files))

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield samples
    finally:
        enough.set()
        thread.join()


async def store(client: NodeClient, fingerprint: bytes, blocks: range) -> None:
    """Store blocks, several clients at a time, and in order but for that."""
    for first in range(blocks.start, blocks.stop, 5):
        calls = [
            client.store(FILES, fingerprint, [run(block)], [content(block)])
            for block in range(first, first + 5)
        ]
        await asyncio.gather(*calls)


@asynccontextmanager
async def life(node: NodeProcess) -> AsyncIterator[tuple[NodeClient, Following]]:
    """A client of a node that knows what it holds, and a follower."""
    async with NodeClient(node.endpoint) as client:
        await ready(client)
        async with following(node.endpoint) as follower:
            yield client, follower


@pytest.mark.slow
async def test_the_capacity_holds_over_all_lives(start_node: StartNode, tmp_path: Path) -> None:
    """Ten blocks, then five: each that goes is told, and the newest are kept."""
    directory = tmp_path / "files"
    tier = files_tier(directory, capacity=10 * COST, io_threads=1)
    node = await start_node(tiers=[tier])
    with sampling(directory) as samples:
        async with life(node) as (client, follower):
            fingerprint = await client.register_namespace(NAMESPACE)
            await store(client, fingerprint, range(100))
            await follower.settle(client)
            gone = [told.reason for told in follower.fold.told if told.what == "removed"]
            assert gone == ["EVICTED"] * 90
        await node.terminate()
        node = await start_node(node)
        async with life(node) as (client, follower):
            assert {key.block_hash for key in follower.fold.view} <= hash_set(range(80, 100))
            await store(client, fingerprint, range(100, 150))
            await follower.settle(client)
            newest = {key.block_hash for key in follower.fold.view}
            assert len(newest) == 10
            assert newest >= hash_set(range(145, 150))
        await node.terminate()
    assert 9 * COST < max(samples) <= 11 * COST

    node.config["tiers"] = [{**tier, "capacity": 5 * COST}]
    node = await start_node(node)
    async with life(node) as (client, follower):
        assert len(follower.fold.view) == len(block_files(directory)) == 5
        assert {key.block_hash for key in follower.fold.view} == hash_set(range(145, 150))
        (told,) = await client.list_tiers()
        assert told.counters.trimmed == 5
        with sampling(directory) as samples:
            await store(client, fingerprint, range(200, 230))
        assert max(samples) <= 6 * COST
        report = await client.load(FILES, fingerprint, [blocks_of(229)])
        assert report.payloads == (content(229),)
    assert strangers(directory) == []
