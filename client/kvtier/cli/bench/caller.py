"""One caller of a load: it stores, looks up, loads and deletes chains of its own."""

import asyncio
import os
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

from kvtier.cli.bench.measured import Measured, Operation
from kvtier.cli.bench.plan import Plan
from kvtier.cli.exit import CommandError
from kvtier.cli.hashing import HASH_WIDTH, chain_hash
from kvtier.client import ExhaustedError, NodeClient
from kvtier.v1.block_pb2 import BlockRun, BlockSet
from kvtier.wire.hashes import split_hashes

T = TypeVar("T")

_PAUSE = 0.1


class _Chain(NamedTuple):
    blocks: BlockSet
    payloads: Sequence[bytes]


class Caller:
    """Keeps so many chains in a tier, the oldest of which makes room for the next.

    Args:
        client: The node.
        plan: What to do.
        namespace: The fingerprint of the load's own namespace.
        measured: Where to note what was measured.
        clock: Tells seconds.
    """

    def __init__(
        self,
        client: NodeClient,
        plan: Plan,
        namespace: bytes,
        measured: Measured,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self._client, self._plan, self._namespace = client, plan, namespace
        self._measured, self._clock = measured, clock
        self._held: deque[BlockSet] = deque()
        self._noise = os.urandom(plan.block_bytes)

    async def work(self, end: float) -> None:
        """Go on until the clock shows the end.

        Raises:
            CommandError: When a block comes back with other bytes than were stored.
            KvtierError: When a call fails for another reason than want of room.
        """
        while self._clock() < end:
            if len(self._held) == self._plan.chains:
                await self._delete(self._held.popleft())
            chain = self._make_chain()
            if await self._store(chain):
                self._held.append(chain.blocks)
                await self._lookup()
                await self._load(chain)

    def _make_chain(self) -> _Chain:
        parent, hashes = os.urandom(HASH_WIDTH), []
        for _ in range(self._plan.blocks):
            parent = chain_hash(parent, b"", HASH_WIDTH)
            hashes.append(parent)
        size = self._plan.block_bytes
        # Each block is unlike any other, so that a mix-up shows.
        payloads = [(digest + self._noise)[:size] for digest in hashes]
        return _Chain(BlockSet(block_hashes=b"".join(hashes)), payloads)

    async def _store(self, chain: _Chain) -> bool:
        runs = [BlockRun(block_hashes=chain.blocks.block_hashes)]
        store = self._client.store(self._plan.tier, self._namespace, runs, chain.payloads)
        report = await self._timed(
            self._measured.store, store, self._plan.blocks, self._plan.chain_bytes
        )
        return report is not None

    async def _lookup(self) -> None:
        blocks = self._plan.blocks * len(self._held)
        lookup = self._client.lookup(self._namespace, self._held)
        await self._timed(self._measured.lookup, lookup, blocks)

    async def _load(self, chain: _Chain) -> None:
        load = self._client.load(self._plan.tier, self._namespace, [chain.blocks])
        report = await self._timed(
            self._measured.load, load, self._plan.blocks, self._plan.chain_bytes
        )
        if report is None:
            return
        self._measured.load.missed += report.payloads.count(None)
        hashes = split_hashes(chain.blocks.block_hashes, HASH_WIDTH)
        for digest, was, found in zip(hashes, chain.payloads, report.payloads, strict=True):
            if found not in {None, was}:
                what = f"block {digest.hex()} came back with other bytes than were stored"
                raise CommandError(self._client.endpoint, what, "kvtier get tiers -o wide")

    async def _delete(self, chain: BlockSet) -> None:
        delete = self._client.delete(self._namespace, [chain])
        await self._timed(self._measured.delete, delete, self._plan.blocks)

    async def _timed(
        self, operation: Operation, call: Coroutine[Any, Any, T], blocks: int, payload: int = 0
    ) -> T | None:
        """Return a call's answer; None when it was refused for want of room."""
        start = self._clock()
        try:
            answer = await call
        except ExhaustedError as error:
            operation.refused += 1
            await asyncio.sleep(error.retry_after or _PAUSE)
            return None
        operation.add(self._clock() - start, blocks, payload)
        return answer
