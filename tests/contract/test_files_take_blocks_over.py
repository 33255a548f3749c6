"""Tiers of files below memory: what is evicted or written through is in files, and comes back."""

import asyncio
import random
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kvtier.client import ExhaustedError, NodeClient
from kvtier.server.tiers.table import FREE
from tests.lasting.memory_shelf import MemoryShelf
from tests.model.check_tables import check_node

from .conftest import Connect, Follow, Serve
from .folding import listed
from .support import Serving, blocks_of, cpu_tier, fs_tier, hash_set, payload, payloads, run
from .tiers_of_two import by_batch, removed, stored

CPU, FS = "cpu0", "fs0"
DOWN: dict[str, Any] = {"on_evict": FS, "free_target": 0, "demote_wait": 10, "promotion_limit": 1}


def names_on_disk(node: Serving, tier: str = FS) -> set[str]:
    """The names of the files that a tier has."""
    keeping = node.node.tier(tier).keeping
    assert keeping is not None
    return {name for batch in keeping.store.shelf.names() for name in batch}


async def settled(node: Serving) -> None:
    """Wait until no copy is under way, and what was freed is deleted."""
    async with asyncio.timeout(10):
        while node.node.tiering.jobs:  # noqa: ASYNC110 - nothing tells of the last job
            await asyncio.sleep(0.01)
    for tier in node.node.tiers:
        if tier.keeping is not None:
            await tier.keeping.store.flush()


def check_files(node: Serving) -> None:
    """Check that exactly the blocks in use have a file each."""
    check_node(node.node)
    for tier in node.node.tiers:
        keeping = tier.keeping
        if keeping is not None:
            in_use = [slot for slot, state in enumerate(tier.table.state) if state != FREE]
            assert names_on_disk(node, tier.name) == {
                each.name for each in keeping._records(in_use, [0] * len(in_use))
            }


async def up(
    node: Serving, *blocks: object, client: NodeClient | None = None
) -> list[bytes | None]:
    """Load blocks from the host tier, brought up first."""
    client = client or node.client
    chain = [blocks_of(*blocks)]
    answer = await client.prepare_load(CPU, node.namespace, chain, promote=True, wait=True)
    read = await client.read_blocks(answer.lease, [len(payload(0))] * len(blocks))
    await client.complete_load(answer.lease)
    return list(read.payloads)


async def test_evicted_blocks_are_files_and_come_back(
    serve: Serve, follow: Follow, tmp_path: Path
) -> None:
    """The store of the file and the removal from memory are one batch; the bytes are the same."""
    node = await serve(cpu_tier(2, **DOWN), fs_tier(8, tmp_path))
    follower = await follow(node)
    await node.store(1)
    await node.store(2)
    await node.store(3)
    await settled(node)

    assert {stored(1, FS), removed(1, CPU, "DEMOTED")} in by_batch(await follower.news())
    assert len(names_on_disk(node)) == 1
    assert await up(node, 1) == payloads(1)
    await settled(node)
    assert len(names_on_disk(node)) == 2, "what came back is a file still"
    check_files(node)


async def test_stores_are_files_too_where_they_are_written_through(
    serve: Serve, tmp_path: Path
) -> None:
    """Memory and files hold the same blocks, and either may lose them alone."""
    node = await serve(cpu_tier(4, write_through=[FS]), fs_tier(8, tmp_path))
    await node.store(1, 2, 3)
    await settled(node)
    assert len(names_on_disk(node)) == 3

    await node.client.delete(node.namespace, [blocks_of(1, 2, 3)], tiers=[CPU])
    assert await up(node, 1, 2, 3) == payloads(1, 2, 3)
    await node.client.delete(node.namespace, [blocks_of(1, 2, 3)], tiers=[FS])
    await settled(node)

    assert not names_on_disk(node)
    assert await node.held(CPU) == hash_set([1, 2, 3])
    check_files(node)


async def test_a_full_directory_gives_up_its_oldest(serve: Serve, tmp_path: Path) -> None:
    """The file of an evicted block goes, and no more files are there than fit."""
    node = await serve(cpu_tier(2, **DOWN), fs_tier(3, tmp_path))
    for i in range(9):
        await node.store(i)
    await settled(node)

    assert await node.held(FS) == hash_set([4, 5, 6])
    assert len(names_on_disk(node)) == 3
    check_files(node)


@pytest.mark.parametrize("shape", ["down", "through", "down twice"])
async def test_clients_at_once_read_what_was_stored(
    serve: Serve, connect: Connect, follow: Follow, tmp_path: Path, shape: str
) -> None:
    """Whatever goes up and down meanwhile; then events, listing, tables and files agree."""
    tiers = {
        "down": [cpu_tier(6, **DOWN), fs_tier(10, tmp_path)],
        "through": [cpu_tier(6, write_through=[FS]), fs_tier(10, tmp_path)],
        "down twice": [
            cpu_tier(6, **DOWN),
            fs_tier(7, tmp_path, on_evict="fs1", demote_wait=1),
            fs_tier(9, tmp_path, "fs1"),
        ],
    }
    node = await serve(*tiers[shape])
    follower = await follow(node)

    async def work(seed: int) -> None:
        rng, client = random.Random(seed), await connect(node)
        for _ in range(25):
            first = rng.randrange(0, 24, 4)
            blocks = list(range(first, first + rng.randint(1, 3)))
            if rng.random() < 0.4:
                with suppress(ExhaustedError):
                    await client.store(CPU, node.namespace, [run(*blocks)], payloads(*blocks))
                continue
            for block, data in zip(blocks, await up(node, *blocks, client=client), strict=True):
                assert data in {None, payload(block)}

    await asyncio.gather(*map(work, range(5)))
    await settled(node)
    await follower.news()

    assert follower.fold.view == await listed(node.client)
    check_files(node)


async def test_a_shelf_that_stands_still_does_not_hold_up_a_stop(
    serve: Serve, tmp_path: Path
) -> None:
    """Copies under way end with the time that a drain may take."""
    node = await serve(
        cpu_tier(4, write_through=[FS]), fs_tier(8, tmp_path, io_timeout=60), drain_timeout=0.5
    )
    keeping, shelf = node.node.tier(FS).keeping, MemoryShelf()
    assert keeping is not None
    keeping.store.shelf = shelf
    shelf.gate.clear()
    await node.store(1)
    await asyncio.sleep(0.05)
    started = time.monotonic()

    try:
        await node.server.drain_and_stop()
        assert time.monotonic() - started < 5
    finally:
        shelf.gate.set()
