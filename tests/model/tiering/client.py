"""A client that does anything at any time, and knows what bytes it must read."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from xxhash import xxh3_64_intdigest

from kvtier.server.lasting.moving import Outcome
from kvtier.server.leases import Lease
from kvtier.server.operations.copying import copy_blocks
from kvtier.server.operations.loading import complete_load, prepare_load
from kvtier.server.operations.looking import touch_blocks
from kvtier.server.operations.removing import clear_tier, delete_blocks
from kvtier.server.operations.storing import complete_store, prepare_store
from kvtier.server.tiers.losses import drop_unsound
from kvtier.server.tiers.table import PENDING
from kvtier.server.tiers.tier import Tier
from kvtier.v1.block_pb2 import BlockRun
from kvtier.v1.copying_pb2 import CopyBlocksRequest, CopyBlocksResponse
from kvtier.v1.removal_pb2 import ClearTierRequest, DeleteBlocksRequest
from kvtier.v1.result_pb2 import LOOKUP_RESULT_HIT
from kvtier.v1.tier_service_pb2 import (
    CompleteLoadRequest,
    CompleteStoreRequest,
    PrepareLoadRequest,
    PrepareLoadResponse,
    PrepareStoreRequest,
    PrepareStoreResponse,
    TouchBlocksRequest,
)
from kvtier.wire.errors import KvtierError, Reason
from tests.contract.support import BLOCK_BYTES, blocks_of, payload, run
from tests.unit.server.support import LocalNode

if TYPE_CHECKING:
    from .nodes import SlowStore

BLOCKS = 18
FINE = {
    Reason.TIER_FULL,
    Reason.TIER_READ_ONLY,
    Reason.LEASE_ENDED,
    Reason.LEASE_UNKNOWN,
    Reason.BLOCKS_LEASED,
}


class Client:
    """One client's random calls.

    Args:
        local: The node.
        rng: What it does.
    """

    def __init__(self, local: LocalNode, rng: random.Random) -> None:
        self._local = local
        self._node = local.node
        self._rng = rng
        self._tiers = [tier.name for tier in local.node.tiers]
        self.done: dict[str, int] = {}

    async def run(self, steps: int) -> None:
        """Make so many calls, one after the other."""
        calls: list[Callable[[], Coroutine[Any, Any, None]]] = [
            *[self._store] * 6,
            *[self._load] * 6,
            *[self._copy] * 2,
            self._touch,
            self._delete,
            self._clear,
        ]
        for _ in range(steps):
            call = self._rng.choice(calls)
            try:
                if self._rng.random() < 0.1:
                    await self._leave_early(call())
                else:
                    await call()
                self.done[call.__name__] = self.done.get(call.__name__, 0) + 1
            except KvtierError as error:
                if error.reason not in FINE:
                    raise

    async def _leave_early(self, call: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(call)
        await asyncio.sleep(self._rng.random() * 0.004)
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled() and task.exception() is not None:
            task.result()

    def _chain(self) -> list[int]:
        """Blocks in order: some of a few chains, each block at its own place."""
        first = self._rng.randrange(0, BLOCKS, 6)
        return list(range(first, first + self._rng.randint(1, 4)))

    def _run(self, blocks: list[int]) -> BlockRun:
        return run(*blocks)

    async def _store(self) -> None:
        blocks, tier = self._chain(), self._rng.choice(self._tiers)
        runs = [self._run(blocks)]
        if self._rng.random() < 0.2:
            runs.append(self._run(blocks[:1]))
            blocks = [*blocks, blocks[0]]
        request = PrepareStoreRequest(
            tier=tier,
            namespace=self._local.namespace,
            runs=runs,
            lease_id=self._local.new_id(),
            owner="walker",
            request_id=self._rng.choice(["", "a", "b", "c"]),
        )
        answer = PrepareStoreResponse.FromString(await prepare_store(self._node, request))
        lease = self._node.leases.get(answer.lease.id)
        assert lease is not None
        try:
            for place, slot in list(lease.slots.items()):
                await asyncio.sleep(self._rng.random() * 0.001)
                data = payload(blocks[place])
                if self._node.leases.get(lease.id) is not lease:
                    return
                if not await self._written(lease.tier, slot, data):
                    continue
                if lease.tier.table.state[slot] == PENDING:
                    lease.tier.mark_written([slot], [xxh3_64_intdigest(data)])
        finally:
            done = CompleteStoreRequest(lease=answer.lease, wait_copies=self._rng.random() < 0.3)
            await complete_store(self._node, done)

    async def _written(self, tier: Tier, slot: int, data: bytes) -> bool:
        if tier.keeping is None:
            cast("SlowStore", tier.store).put(tier.position_of(slot), data)
            return True
        tier.occupancy.hold([slot])
        block = np.frombuffer(data, np.uint8)
        moving = tier.keeping.save([slot], [xxh3_64_intdigest(data)], [block])
        moving.ended.add_done_callback(lambda _: tier.occupancy.unpin([slot]))
        return await moving.outcomes() == [Outcome.DONE]

    async def _load(self) -> None:
        blocks = self._chain()
        request = PrepareLoadRequest(
            tier=self._rng.choice(self._tiers),
            namespace=self._local.namespace,
            blocks=[blocks_of(*blocks)],
            lease_id=self._local.new_id(),
            owner="walker",
            request_id=self._rng.choice(["", "a", "b", "c"]),
            promote=self._rng.random() < 0.8,
            wait=self._rng.random() < 0.7,
        )
        answer = PrepareLoadResponse.FromString(await prepare_load(self._node, request, 2.0))
        lease = self._node.leases.get(answer.lease.id)
        assert lease is not None
        try:
            for _ in range(self._rng.randint(1, 3)):
                await self._read(blocks, list(answer.results), lease)
                await asyncio.sleep(self._rng.random() * 0.003)
        finally:
            await asyncio.sleep(0)
            complete_load(self._node, CompleteLoadRequest(lease=answer.lease))

    async def _read(self, blocks: list[int], results: list[int], lease: Lease) -> None:
        """What a lease pins has the bytes of its block, as long as it is held."""
        assert {results[place] for place in lease.slots} <= {LOOKUP_RESULT_HIT}
        if lease.tier.keeping is not None:
            await self._read_shelf(blocks, lease)
            return
        for place, slot in lease.slots.items():
            data = lease.tier.arena.read(lease.tier.position_of(slot), BLOCK_BYTES)
            assert data == payload(blocks[place]), "a pinned block has its own bytes"

    async def _read_shelf(self, blocks: list[int], lease: Lease) -> None:
        """The same of what lies on a shelf, unless that fails or the block was harmed."""
        keeping = lease.tier.keeping
        assert keeping is not None
        read = [np.zeros(BLOCK_BYTES, np.uint8) for _ in lease.slots]
        outcomes = await keeping.load(list(lease.slots.values()), read).outcomes()
        sound = drop_unsound(lease.tier, list(lease.slots.values()), outcomes)
        for place, good, data in zip(lease.slots, sound, read, strict=True):
            assert not good or data.tobytes() == payload(blocks[place])

    async def _copy(self) -> None:
        source, target = self._rng.sample(self._tiers, 2)

        async def send(_answer: CopyBlocksResponse) -> None:
            await asyncio.sleep(0)

        request = CopyBlocksRequest(
            namespace=self._local.namespace,
            runs=[self._run(self._chain())],
            from_tier=source,
            to_tier=target,
            move=self._rng.random() < 0.5,
        )
        await copy_blocks(self._node, request, send)

    async def _touch(self) -> None:
        blocks = [blocks_of(*self._chain())]
        request = TouchBlocksRequest(
            namespace=self._local.namespace, blocks=blocks, request_id=self._rng.choice("abc")
        )
        touch_blocks(self._node, request)

    async def _delete(self) -> None:
        tiers = self._rng.choice([[], [self._rng.choice(self._tiers)]])
        request = DeleteBlocksRequest(
            namespace=self._local.namespace,
            blocks=[blocks_of(*self._chain())],
            tiers=tiers,
            force=self._rng.random() < 0.5,
        )
        await delete_blocks(self._node, request)

    async def _clear(self) -> None:
        if self._rng.random() < 0.2:
            tier = self._rng.choice(self._tiers)
            request = ClearTierRequest(tier=tier, force=self._rng.random() < 0.5)
            await clear_tier(self._node, request)
