"""A disk that is full: stores are refused in its words, nothing else suffers, and it heals."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kvtier.client import FailedPreconditionError, NodeClient
from kvtier.v1.event_service_pb2 import TierState
from kvtier.v1.result_pb2 import WriteResult
from tests.contract.filed import FILES, block_files, files_tier
from tests.contract.folding import listed
from tests.contract.following import following
from tests.contract.support import blocks_of, namespace, payload, run, words

from .conftest import StartNode
from .disks import SmallDisk, small_disk, strangers
from .processes import NodeProcess, reached, ready

SIZE = 64 << 10
NAMESPACE = namespace("full", block_bytes=[SIZE])
FULL = "no space left on device"
HOST = {"name": "cpu0", "medium": "cpu", "capacity": 8 * SIZE}
BALLAST = "ballast"


def content(block: object) -> bytes:
    return payload(block, SIZE)


@pytest.fixture(name="disk")
def _disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """Five MiB, of which something else takes three."""
    where = tmp_path / "disk"
    where.mkdir()
    with small_disk(where, "5m") as disk:
        (disk.seen / BALLAST).write_bytes(bytes(3 << 20))
        yield disk


@pytest.fixture(name="node")
async def _node(start_node: StartNode, tmp_path: Path, disk: SmallDisk) -> NodeProcess:
    """A node with memory, and a tier of files that may be larger than its disk."""
    tiers = [HOST, files_tier(tmp_path / "disk" / "files")]
    return await start_node(prefix=disk.prefix, tiers=tiers)


async def fill(client: NodeClient, fingerprint: bytes, first: int) -> list[int]:
    """Store blocks until the tier takes no more; return those that it has taken."""
    stored: list[int] = []
    for block in range(first, first + 100):
        try:
            report = await client.store(FILES, fingerprint, [run(block)], [content(block)])
        except FailedPreconditionError as error:
            if (error.reason, FULL in str(error)) != ("TIER_READ_ONLY", True):
                raise
            return stored
        if words(WriteResult, report.results) == ["STORED"]:
            stored.append(block)
        else:
            assert words(WriteResult, report.results) == ["FAILED"]
    raise AssertionError("the disk never was full")


async def read(client: NodeClient, fingerprint: bytes, tier: str, blocks: list[int]) -> bool:
    """Tell whether all of some blocks are as they were stored."""
    report = await client.load(tier, fingerprint, [blocks_of(*blocks)])
    return list(report.payloads) == [content(block) for block in blocks]


@pytest.mark.slow
@pytest.mark.parametrize("killed", [False, True], ids=["goes-on", "is-killed"])
async def test_a_full_disk_refuses_stores_and_heals_by_itself(
    start_node: StartNode, node: NodeProcess, disk: SmallDisk, killed: bool
) -> None:
    """What was stored before is there all the time, and nothing unfinished takes room."""
    directory = disk.seen / "files"
    async with NodeClient(node.endpoint) as client:
        fingerprint = await client.register_namespace(NAMESPACE)
        async with following(node.endpoint) as follower:
            stored = await fill(client, fingerprint, 0)
            await follower.settle(client)
            (tier,) = [each for each in await client.list_tiers() if each.name == FILES]
            assert (tier.state, tier.state_reason) == (TierState.TIER_STATE_READ_ONLY, FULL)
            assert len(stored) > 20
            assert follower.fold.view == await listed(client)
            assert len(follower.fold.told) == len(stored) == len(block_files(directory))
            assert strangers(directory) == []

        if killed:
            await node.kill()
            node = await start_node(node)
            await ready(client)
            assert await fill(client, fingerprint, 1000) == []
        await client.store("cpu0", fingerprint, [run(1), run(2)], [content(1), content(2)])
        assert await read(client, fingerprint, "cpu0", [1, 2])
        assert await read(client, fingerprint, FILES, stored)

        (disk.seen / BALLAST).unlink()
        await ready(client)
        more = await fill(client, fingerprint, 2000)
        assert len(more) > 30
        assert await read(client, fingerprint, FILES, stored + more)
        assert len(block_files(directory)) == len(stored + more)
        assert strangers(directory) == []


@pytest.mark.slow
async def test_deletes_make_room_on_a_full_disk(node: NodeProcess, disk: SmallDisk) -> None:
    """A tier that has filled its disk takes deletes, and then blocks again, all by itself."""
    async with NodeClient(node.endpoint) as client:
        fingerprint = await client.register_namespace(NAMESPACE)
        stored = await fill(client, fingerprint, 0)

        await client.delete(fingerprint, [blocks_of(*stored[:20])], tiers=[FILES])
        await ready(client)
        more = await fill(client, fingerprint, 1000)

        assert len(more) > 10
        assert await read(client, fingerprint, FILES, stored[20:] + more)
        assert len(block_files(disk.seen / "files")) == len(stored) - 20 + len(more)


@pytest.mark.slow
async def test_blocks_of_memory_that_a_full_disk_does_not_take_are_dropped(
    start_node: StartNode, tmp_path: Path, disk: SmallDisk
) -> None:
    """Memory takes whatever is stored; what the disk took before it was full is there."""
    host = {**HOST, "on_evict": FILES, "write_through": [FILES]}
    tiers = [host, files_tier(tmp_path / "disk" / "files")]
    node = await start_node(prefix=disk.prefix, tiers=tiers)
    async with NodeClient(node.endpoint) as client:
        fingerprint = await client.register_namespace(NAMESPACE)
        for block in range(100):
            await client.store("cpu0", fingerprint, [run(block)], [content(block)])
            assert await read(client, fingerprint, "cpu0", [block])

        memory, files = await client.list_tiers()
        assert (files.state, files.state_reason) == (TierState.TIER_STATE_READ_ONLY, FULL)
        assert memory.counters.stored == 100
        assert memory.counters.dropped + files.counters.copies_failed > 0
        kept = set(await listed(client, FILES))
        await node.kill()
        node = await start_node(node)
        await reached(client)
        await ready(client)
        assert set(await listed(client)) == kept
        assert strangers(disk.seen / "files") == []
