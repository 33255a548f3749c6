"""Clients that store, load and delete blocks of a node, and know what they were told of each."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from enum import Enum
from functools import cache
from itertools import chain

from kvtier.client import ExhaustedError, FailedPreconditionError, NodeClient
from kvtier.v1.block_pb2 import BlockSet
from kvtier.v1.result_pb2 import DeleteResult, StoreOutcome, WriteResult
from kvtier.wire.namespaces import fingerprint
from tests.contract.folding import Key
from tests.contract.support import block_hash, blocks_of, namespace, payload, run

SIZES = [4096, 16384, 65536]
LARGEST = max(SIZES)
CLIENTS, OWN = 4, 40
NAMES = range(CLIENTS * OWN)
NAMESPACE = namespace("killed", block_bytes=SIZES)
FINGERPRINT = fingerprint(NAMESPACE)


_REMOVED = {DeleteResult.DELETE_RESULT_DELETED, DeleteResult.DELETE_RESULT_NOT_FOUND}


class Fate(Enum):
    """What is known of a block."""

    STORED = "stored"
    GONE = "gone"
    # The answer that would tell has not come.
    OPEN = "open"


@cache
def content(name: int) -> bytes:
    return payload(name, SIZES[group_of(name)])


def group_of(name: int) -> int:
    return name % len(SIZES)


def sets_of(names: Iterable[int]) -> list[BlockSet]:
    """Return what to ask for; the blocks are numbered as the names are."""
    return [blocks_of(name, group=group_of(name)) for name in names]


_NAME_OF = {block_hash(name): name for name in NAMES}


class Ledger:
    """What clients were told, over all lives of a node.

    Attributes:
        fate: What is known of each block.
        newest: The blocks that were stored, the last one last.
        deleted: The blocks that were deleted since the node started, or may have been.
    """

    def __init__(self) -> None:
        self.fate = dict.fromkeys(NAMES, Fate.GONE)
        self.newest: list[int] = []
        self.deleted: set[int] = set()

    def are(self, fate: Fate) -> set[int]:
        """Return the blocks of which something is known."""
        return {name for name, known in self.fate.items() if known is fate}

    def note(self, names: Iterable[int], fate: Fate) -> None:
        """Write down what is known of blocks from now on."""
        for name in names:
            self.fate[name] = fate
            if name in self.newest:
                self.newest.remove(name)
            if fate is Fate.STORED:
                self.newest.append(name)

    def begin_life(self, there: set[int]) -> None:
        """Settle what is open by what a node lists that knows what it holds."""
        self.deleted.clear()
        for name, fate in self.fate.items():
            found = Fate.STORED if name in there else Fate.GONE
            if fate is not found:
                self.note([name], found)


class Worker:
    """A client of a tier, which has names of its own and reads those of all.

    Args:
        client: The client of the node.
        tier: Where it stores and loads.
        own: Its names.
        ledger: Where it writes down what it is told.
        dice: What it does next.
        reliable: Whether what the tier keeps its blocks on never fails.
    """

    def __init__(
        self,
        client: NodeClient,
        tier: str,
        own: range,
        ledger: Ledger,
        dice: random.Random,
        *,
        reliable: bool,
    ) -> None:
        self._client, self._tier, self._own = client, tier, own
        self._ledger, self._dice, self._reliable = ledger, dice, reliable
        self._namespace = b""

    async def work(self) -> None:
        """Go on for ever; every answer has to be one of a node that is well."""
        self._namespace = await self._client.register_namespace(NAMESPACE)
        acts = [self._store, self._store, self._load, self._delete, self._store_and_delete]
        while True:
            try:
                await self._dice.choice(acts)()
            except ExhaustedError:
                await asyncio.sleep(0.001)
            except FailedPreconditionError:
                assert not self._reliable
                await asyncio.sleep(0.02)

    async def _store(self) -> None:
        await self._store_some(self._dice.sample(self._own, self._dice.randint(1, 4)))

    async def _store_and_delete(self) -> None:
        """Delete blocks that may still be on their way to a slower tier."""
        names = self._dice.sample(self._own, 4)
        await self._store_some(names)
        await self._delete_some(names)

    async def _delete(self) -> None:
        await self._delete_some(self._dice.sample(self._own, 2))

    async def _store_some(self, names: Sequence[int]) -> None:
        before = {name: self._ledger.fate[name] for name in names}
        self._ledger.note(names, Fate.OPEN)
        runs = [run(name, group=group_of(name)) for name in names]
        try:
            report = await self._client.store(
                self._tier, self._namespace, runs, [content(name) for name in names]
            )
        except (ExhaustedError, FailedPreconditionError):
            for name, fate in before.items():
                self._ledger.note([name], fate)
            raise
        for name, outcome, result in zip(names, report.outcomes, report.results, strict=True):
            there = outcome == StoreOutcome.STORE_OUTCOME_PRESENT
            if there or result == WriteResult.WRITE_RESULT_STORED:
                self._ledger.note([name], Fate.STORED)
            else:
                assert not self._reliable

    async def _load(self) -> None:
        names = self._dice.sample(NAMES, 3)
        report = await self._client.load(self._tier, self._namespace, sets_of(names))
        for name, data in zip(names, report.payloads, strict=True):
            assert data is None or data == content(name)

    async def _delete_some(self, names: Sequence[int]) -> None:
        self._ledger.note(names, Fate.OPEN)
        self._ledger.deleted.update(names)
        answer = await self._client.delete(
            self._namespace, sets_of(names), force=self._dice.random() < 0.5
        )
        results = set(chain.from_iterable(tier.results for tier in answer.tiers))
        assert not self._reliable or DeleteResult.DELETE_RESULT_UNAVAILABLE not in results
        if results <= _REMOVED:
            self._ledger.note(names, Fate.GONE)


@asynccontextmanager
async def working(
    client: NodeClient, tier: str, ledger: Ledger, dice: random.Random, *, reliable: bool = True
) -> AsyncIterator[None]:
    """Keep a tier busy until the body ends; what a client finds wrong before fails the test."""
    workers = [
        Worker(
            client,
            tier,
            NAMES[first : first + OWN],
            ledger,
            random.Random(dice.random()),
            reliable=reliable,
        )
        for first in range(0, len(NAMES), OWN)
    ]
    tasks = [asyncio.create_task(worker.work()) for worker in workers]
    try:
        yield
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def clear(client: NodeClient, ledger: Ledger) -> None:
    """Clear all tiers, the fastest first: what it hands down ends with it."""
    ledger.note(ledger.are(Fate.STORED), Fate.OPEN)
    for tier in await client.list_tiers():
        await client.clear(tier.name, force=True)
    ledger.note(ledger.are(Fate.OPEN), Fate.GONE)


def names_in(keys: Iterable[Key], tier: str) -> set[int]:
    """Return which of the blocks a view or a listing shows in a tier."""
    return {_NAME_OF[key.block_hash] for key in keys if key.tier == tier}


async def exact(client: NodeClient, tier: str, names: set[int]) -> bool:
    """Tell whether every one of some blocks is there, and as it was stored."""
    if not names:
        return True
    report = await client.load(tier, FINGERPRINT, sets_of(sorted(names)))
    return list(report.payloads) == [content(name) for name in sorted(names)]
