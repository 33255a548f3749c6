"""SIGTERM while everybody is at work: what is under way ends, and then all are told."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest

from kvtier.client import AbortedError, NodeClient, Reason, UnavailableError
from kvtier.v1.block_pb2 import Lease
from tests.contract.filed import FILES, block_files, files_tier
from tests.contract.folding import listed
from tests.contract.following import Following, following
from tests.contract.health import health
from tests.contract.support import block_hash, blocks_of, namespace, run

from .conftest import StartNode
from .processes import ready

MIB = 1 << 20
FOLLOWERS, LOADS, STORES = 20, 5, 5
WRITTEN = 48


def content(block: int) -> bytes:
    return bytes([block + 1]) * MIB


async def slow_load(client: NodeClient, lease: Lease, go_on: asyncio.Event) -> bytes:
    """Read a pinned block once the node is asked to stop, and let go of it."""
    await go_on.wait()
    report = await client.read_blocks(lease, [MIB])
    await client.complete_load(lease)
    return bytes(report.payloads[0] or b"")


async def slow_store(client: NodeClient, lease: Lease, block: int, go_on: asyncio.Event) -> bytes:
    """Write an offered block once the node is asked to stop, and complete it."""
    await go_on.wait()
    await client.write_blocks(lease, {0: content(block)}, [MIB])
    await client.complete_store(lease)
    return block_hash(block)


async def refused(client: NodeClient, fingerprint: bytes) -> str:
    """Offer a block until the node takes none any more; return why."""
    block = 1000
    while True:
        try:
            prepared = await client.prepare_store("cpu0", fingerprint, [run(block)])
            await client.release_leases([prepared.lease])
        except UnavailableError as error:
            return error.reason
        block += 1


@pytest.mark.slow
async def test_work_under_way_ends_and_followers_hear_of_it(start_node: StartNode) -> None:
    """Loads are exact, stores that were confirmed are told, every stream ends with DRAINING."""
    tier = {"name": "cpu0", "medium": "cpu", "capacity": 16 * MIB, "slot_bytes": MIB}
    node = await start_node(tiers=[tier], limits={"snapshots": FOLLOWERS}, drain_timeout=15)
    async with NodeClient(node.endpoint) as client, AsyncExitStack() as stack:
        fingerprint = await client.register_namespace(namespace(block_bytes=[MIB]))
        for block in range(LOADS):
            await client.store("cpu0", fingerprint, [run(block)], [content(block)])
        followers = [
            await stack.enter_async_context(following(node.endpoint)) for _ in range(FOLLOWERS)
        ]
        go_on = asyncio.Event()
        loads, stores = [], []
        for block in range(LOADS):
            pinned = await client.prepare_load("cpu0", fingerprint, [blocks_of(block)])
            loads.append(asyncio.create_task(slow_load(client, pinned.lease, go_on)))
        for block in range(100, 100 + STORES):
            offered = await client.prepare_store("cpu0", fingerprint, [run(block)])
            stores.append(asyncio.create_task(slow_store(client, offered.lease, block, go_on)))

        stopping = asyncio.create_task(node.terminate())
        async with asyncio.timeout(10):
            why = await refused(client, fingerprint)
        undisturbed = [follower.error for follower in followers]
        go_on.set()
        loaded = await asyncio.gather(*loads)
        stored = set(await asyncio.gather(*stores))
        async with asyncio.timeout(10):
            code = await stopping
        for follower in followers:
            await ended(follower)

    assert code == 0
    assert why == Reason.DRAINING
    assert undisturbed == [None] * FOLLOWERS
    assert loaded == [content(block) for block in range(LOADS)]
    assert Counter(goodbye(follower) for follower in followers) == {
        ("UNAVAILABLE", Reason.DRAINING): FOLLOWERS
    }
    everything = stored | {block_hash(block) for block in range(LOADS)}
    for follower in followers:
        assert {key.block_hash for key in follower.fold.view} == everything


async def ended(follower: Following) -> None:
    with suppress(UnavailableError):
        await follower.until(lambda: follower.error)


def goodbye(follower: Following) -> tuple[str, str]:
    assert follower.error is not None
    return follower.error.code.name, follower.error.reason


@pytest.mark.slow
async def test_what_is_being_written_through_is_whole_or_not_there(
    start_node: StartNode, tmp_path: Path
) -> None:
    """A stop is announced at once; the next start finds no torn file."""
    directory = tmp_path / "files"
    tier = {
        "name": "cpu0",
        "medium": "cpu",
        "capacity": WRITTEN * MIB,
        "slot_bytes": MIB,
        "write_through": [FILES],
    }
    below = files_tier(directory, capacity=2 * WRITTEN * MIB, io_threads=1)
    node = await start_node(tiers=[tier, below], drain_timeout=1)
    async with NodeClient(node.endpoint) as client, health(node.endpoint) as probe:
        fingerprint = await client.register_namespace(namespace(block_bytes=[MIB]))
        readiness = probe.watch("kvtier.v1.TierService")
        assert await readiness.next() == "SERVING"
        for block in range(WRITTEN):
            await client.store("cpu0", fingerprint, [run(block)], [content(block)])

        stopping = asyncio.create_task(node.terminate())
        async with asyncio.timeout(5):
            assert await readiness.next() == "NOT_SERVING"
        code = await stopping

    node = await start_node(node)
    async with NodeClient(node.endpoint) as client:
        await ready(client)
        there = [key.block_hash for key in await listed(client, FILES)]
        asked = [blocks_of(block) for block in range(WRITTEN) if block_hash(block) in there]
        report = await client.load(FILES, fingerprint, asked)
        expected = [content(block) for block in range(WRITTEN) if block_hash(block) in there]
        (files,) = [tier for tier in await client.list_tiers() if tier.name == FILES]

    assert code == 0
    assert list(report.payloads) == expected
    assert files.counters.corrupt == files.counters.lost == 0
    assert len(block_files(directory)) == len(there)


async def test_work_that_does_not_end_in_time_is_aborted(start_node: StartNode) -> None:
    """The node leaves with 0 when its time is over, and whoever was too late is told so."""
    tier = {"name": "cpu0", "medium": "cpu", "capacity": 16 * MIB, "slot_bytes": MIB}
    node = await start_node(tiers=[tier], drain_timeout=1)
    async with NodeClient(node.endpoint) as client, following(node.endpoint) as follower:
        fingerprint = await client.register_namespace(namespace(block_bytes=[MIB]))
        await client.store("cpu0", fingerprint, [run(0)], [content(0)])
        await client.prepare_load("cpu0", fingerprint, [blocks_of(0)])
        offered = await client.prepare_store("cpu0", fingerprint, [run(1)])

        code = await node.terminate()
        with pytest.raises((AbortedError, UnavailableError)):
            await client.complete_store(offered.lease)
        await ended(follower)

    assert code == 0
    assert goodbye(follower) == ("UNAVAILABLE", Reason.DRAINING)
    assert {key.block_hash for key in follower.fold.view} == {block_hash(0)}
