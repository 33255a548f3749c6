"""A node whose tier callers have mapped ends, and comes again: nothing is left or wrong."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from kvtier.client import Blocks, DataPath, ExhaustedError, KvtierError, NodeClient, NotFoundError
from tests.contract.support import blocks_of, namespace, payload, run
from tests.waiting import until

from .conftest import StartNode
from .processes import NodeProcess, reached

BLOCK_BYTES, SLOTS, NAMES, WORKERS = 300_000, 32, 100, 8
NAMESPACE = namespace("mapped", block_bytes=[BLOCK_BYTES])


def content(name: int) -> bytes:
    return payload(name, BLOCK_BYTES)


class Worker:
    """Stores and loads at random, and checks every byte.

    Attributes:
        done: Operations that succeeded.
        paths: How their bytes went.
    """

    def __init__(self, blocks: Blocks, fingerprint: bytes, seed: int) -> None:
        self.done = 0
        self.paths: set[DataPath] = set()
        self._blocks = blocks
        self._namespace = fingerprint
        self._random = random.Random(seed)

    async def work(self) -> None:
        """Go on for ever; only errors of ours are passed over."""
        while True:
            names = self._random.sample(range(NAMES), 3)
            try:
                await self._store_and_load(names)
                self.done += 1
            except ExhaustedError:
                self.done += 1
            except KvtierError:
                await asyncio.sleep(0.02)

    async def _store_and_load(self, names: list[int]) -> None:
        offer = [run(name) for name in names]
        stored = await self._blocks.store(self._namespace, offer, list(map(content, names)))
        names += self._random.sample(range(NAMES), 3)
        async with self._blocks.read(self._namespace, [blocks_of(*names)]) as found:
            right = [
                view is None or view == content(name)
                for name, view in zip(names, found.payloads, strict=True)
            ]
        # Only now is it said that nothing changed meanwhile: a node that ends takes its memory.
        assert all(right)
        self.paths |= {stored.path, found.path}


@asynccontextmanager
async def working(client: NodeClient) -> AsyncIterator[list[Worker]]:
    """Let workers work until the body ends; what one raises fails the test."""
    fingerprint = await client.register_namespace(NAMESPACE)
    async with client.blocks("cpu0") as blocks:
        workers = [Worker(blocks, fingerprint, seed) for seed in range(WORKERS)]
        tasks = [asyncio.create_task(worker.work()) for worker in workers]
        try:
            yield workers
        finally:
            for task in tasks:
                task.cancel()
            for task in tasks:
                with suppress(asyncio.CancelledError):
                    await task


async def all_go_on(workers: list[Worker]) -> None:
    """Wait until every worker has done something more."""
    before = [worker.done for worker in workers]
    await until(lambda: all(w.done > then for w, then in zip(workers, before, strict=True)))


async def kill(node: NodeProcess) -> None:
    await node.kill()


async def stop(node: NodeProcess) -> None:
    assert await node.terminate() == 0


def arenas(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.arena"))


def mapped(folder: Path) -> list[bool]:
    """Which files of a folder this process has mapped: for each whether it is still there."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return [not line.endswith("(deleted)") for line in lines if str(folder) in line]


@pytest.mark.slow
@pytest.mark.parametrize("end_life", [stop, kill])
async def test_callers_go_on_in_the_memory_of_the_node_that_comes_after(
    start_node: StartNode, tmp_path: Path, end_life: Callable[[NodeProcess], Awaitable[None]]
) -> None:
    """Under load, twice: every load is exact, and the memory of the life before is let go."""
    tier = {"name": "cpu0", "medium": "cpu", "capacity": SLOTS * BLOCK_BYTES}
    node = await start_node(tiers=[tier])
    async with NodeClient(node.endpoint) as client, working(client) as workers:
        await all_go_on(workers)
        for _ in range(2):
            await end_life(node)
            assert len(arenas(tmp_path)) == (end_life is kill)
            node = await start_node(node)
            await reached(client)
            for _ in range(3):
                await all_go_on(workers)
            assert len(arenas(tmp_path)) == 1
        seen = mapped(tmp_path)
        paths = {path for worker in workers for path in worker.paths}
    await stop(node)

    assert paths == {DataPath.SHARED_MEMORY}
    assert seen == [True]
    assert arenas(tmp_path) == []


async def test_a_start_after_a_kill_waits_for_no_caller(
    start_node: StartNode, tmp_path: Path
) -> None:
    """One reads in the old memory all the time; at the end it is told that its lease is unknown."""
    tier = {"name": "cpu0", "medium": "cpu", "capacity": SLOTS * BLOCK_BYTES}
    node = await start_node(tiers=[tier])
    async with NodeClient(node.endpoint) as client:
        fingerprint = await client.register_namespace(NAMESPACE)
        async with client.blocks("cpu0") as blocks:
            await blocks.store(fingerprint, [run(1)], [content(1)])
            reading = blocks.read(fingerprint, [blocks_of(1)])
            (view,) = (await reading.__aenter__()).payloads
            await node.kill()
            node = await start_node(node)
            await reached(client)
            old = bytes(view or b"")[:8]
            await blocks.store(fingerprint, [run(2)], [content(2)])
            with pytest.raises(NotFoundError):
                await reading.__aexit__(None, None, None)
            new = await blocks.load(fingerprint, [blocks_of(2)])

    # A file system on a disk need not be able to give memory back; shared memory is.
    assert old in {bytes(8), content(1)[:8]}
    assert [bytes(each or b"") for each in new.payloads] == [content(2)]
    assert len(arenas(tmp_path)) == 1
