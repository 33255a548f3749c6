"""A client that is busy all the time, and remembers what it was told."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any

from kvtier.client import KvtierError
from kvtier.v1.result_pb2 import LookupResult, StoreOutcome, WriteResult
from kvtier.wire.hashes import split_hashes
from tests.contract.support import WIDTH, blocks_of, payloads, run, words
from tests.contract.viewing import View

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

    def __init__(self, client: Any, fingerprint: bytes) -> None:
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
async def working(client: Any, fingerprint: bytes) -> AsyncIterator[Worker]:
    """Let a worker work until the body ends; what it raises fails the test."""
    worker = Worker(client, fingerprint)
    try:
        await worker.all_succeed()
        yield worker
    finally:
        worker.task.cancel()
        with suppress(asyncio.CancelledError):
            await worker.task


def stores(view: View, node_id: str, epoch: int) -> Counter[bytes]:
    """How often each block was told as stored in one life of the node."""
    return Counter(
        block
        for message in view.messages
        if (message.node_id, message.epoch) == (node_id, epoch)
        for batch in message.batches.batches
        for stored in batch.stored
        for block in split_hashes(stored.block_hashes, WIDTH)
    )
