"""A client that is busy while its node starts anew goes on by itself, and was told no lie."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count

import pytest

from kvtier.client import KvtierError, NodeClient
from kvtier.v1.result_pb2 import LookupResult, StoreOutcome, WriteResult
from kvtier.wire.hashes import split_hashes
from tests.contract.support import (
    WIDTH,
    block_hash,
    blocks_of,
    cpu_tier,
    hash_set,
    namespace,
    payloads,
    run,
    words,
)
from tests.contract.viewing import View, watching

from .conftest import StartNode
from .processes import NodeProcess

RECOVERY_SECONDS = 5.0
PAUSE_SECONDS = 0.02
KINDS = ("store", "load", "lookup")


class Worker:
    """Stores, loads and looks up one block after the other; what fails it tries again.

    Attributes:
        confirmed: The blocks whose store was reported as a success.
        done: For each kind of operation, how many succeeded.
        failures: Every error.
        moved: Set after each operation, and at the end.
        task: Works until it is cancelled, or an answer is wrong.
    """

    def __init__(self, client: NodeClient, fingerprint: bytes) -> None:
        self.confirmed: list[int] = []
        self.done: Counter[str] = Counter()
        self.failures: list[Exception] = []
        self.moved = asyncio.Event()
        self._client = client
        self._namespace = fingerprint
        self._ending = False
        self.task = asyncio.create_task(self._work())
        self.task.add_done_callback(lambda _: self.moved.set())

    async def finish(self) -> None:
        """Stop after the block that is being worked on."""
        self._ending = True
        await self.task

    async def _work(self) -> None:
        """Go on until cancelled; only errors that have a type of ours are passed over."""
        for block in count():
            if self._ending:
                return
            while not await self._attempt("store", block):
                pass
            self.confirmed.append(block)
            await self._attempt("load", block)
            await self._attempt("lookup", block)

    async def all_succeed(self) -> None:
        """Wait until every kind of operation has succeeded once more."""
        before = self.done.copy()
        while any(self.done[kind] == before[kind] for kind in KINDS):
            if self.task.done():
                self.task.result()
            self.moved.clear()
            await self.moved.wait()

    async def _attempt(self, kind: str, block: int) -> bool:
        succeeded = False
        try:
            succeeded = await getattr(self, f"_{kind}")(block)
        except KvtierError as error:
            self.failures.append(error)
        self.done[kind] += succeeded
        self.moved.set()
        await asyncio.sleep(PAUSE_SECONDS)
        return succeeded

    async def _store(self, block: int) -> bool:
        report = await self._client.store("cpu0", self._namespace, [run(block)], payloads(block))
        present = words(StoreOutcome, report.outcomes) == ["PRESENT"]
        return present or words(WriteResult, report.results) == ["STORED"]

    async def _load(self, block: int) -> bool:
        report = await self._client.load("cpu0", self._namespace, [blocks_of(block)])
        (loaded,) = report.payloads
        assert loaded is None or [loaded] == payloads(block)
        return loaded is not None

    async def _lookup(self, block: int) -> bool:
        answer = await self._client.lookup(self._namespace, [blocks_of(block)], include_blocks=True)
        return words(LookupResult, answer.chains[0].results) == ["HIT"]


@asynccontextmanager
async def working(client: NodeClient) -> AsyncIterator[Worker]:
    """Let a worker work until the body ends; what it raises fails the test."""
    worker = Worker(client, await client.register_namespace(namespace()))
    try:
        await worker.all_succeed()
        yield worker
    finally:
        worker.task.cancel()
        with suppress(asyncio.CancelledError):
            await worker.task


async def stop(node: NodeProcess) -> None:
    await node.terminate()


async def kill(node: NodeProcess) -> None:
    await node.kill()


async def kill_for_a_while(node: NodeProcess) -> None:
    await node.kill()
    await asyncio.sleep(4)


def stores(view: View, epoch: int) -> Counter[bytes]:
    """How often each block was told as stored in one life of the node."""
    return Counter(
        block
        for message in view.messages
        if message.epoch == epoch
        for batch in message.batches.batches
        for stored in batch.stored
        for block in split_hashes(stored.block_hashes, WIDTH)
    )


@pytest.mark.slow
@pytest.mark.parametrize("end_life", [stop, kill, kill_for_a_while])
async def test_operations_succeed_soon_after_the_node_serves(
    start_node: StartNode, end_life: Callable[[NodeProcess], Awaitable[None]]
) -> None:
    """Meanwhile they fail with typed errors; what is reported as stored is there, and once."""
    node = await start_node(tiers=[cpu_tier(65536)])
    async with (
        NodeClient(node.endpoint) as client,
        watching(client) as view,
        working(client) as worker,
    ):
        await view.until(lambda: len(stores(view, view.messages[-1].epoch)) > 20)
        first = (await client.get_node()).head.epoch

        known = len(worker.confirmed)
        await end_life(node)
        await start_node(node)
        async with asyncio.timeout(RECOVERY_SECONDS):
            await worker.all_succeed()
        recovered = len(worker.failures)
        for _ in range(10):
            await worker.all_succeed()
        await worker.finish()
        about = await client.get_node()
        await view.settle(client)
        listed = {block.block_hash async for block in client.list_blocks()}

    assert len(worker.failures) == recovered
    assert hash_set(worker.confirmed[known + 1 :]) <= listed
    assert block_hash(worker.confirmed[0]) not in listed
    assert {key.block_hash for key in view.held(about.node_id)} == listed
    assert first != about.head.epoch
    for epoch in (first, about.head.epoch):
        assert set(stores(view, epoch).values()) == {1}
