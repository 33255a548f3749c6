"""A node in this process whose bytes are in plain memory, driven without gRPC."""

import random
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from itertools import count
from typing import Any, TypeVar

import numpy as np
from xxhash import xxh3_64_intdigest

from kvtier.server.clock import ManualClock
from kvtier.server.config import NodeConfig, TierConfig
from kvtier.server.lasting.store import LastingStore
from kvtier.server.leases import Lease
from kvtier.server.node import Node
from kvtier.server.operations.requests import request_digest
from kvtier.server.operations.storing import open_store
from kvtier.server.services.tier_service import TierService
from kvtier.server.services.transfer_service import TransferService
from kvtier.server.stores.base import Bytes, span
from kvtier.server.stores.open import keep_on
from kvtier.server.tiers.tier import Tier
from kvtier.v1 import block_pb2
from kvtier.v1.block_pb2 import MEDIUM_CPU, BlockRun, BlockSet, RemovalReason
from kvtier.v1.event_service_pb2 import EventBatch, EventBatches
from kvtier.v1.lookup_pb2 import LookupBlocksRequest, LookupBlocksResponse
from kvtier.v1.result_pb2 import LookupResult
from kvtier.v1.tier_service_pb2 import (
    CompleteStoreRequest,
    CompleteStoreResponse,
    PrepareStoreRequest,
    PrepareStoreResponse,
)
from kvtier.wire.namespaces import fingerprint as fingerprint_of
from tests.contract.support import blocks_of, cpu_tier, namespace, payload, run, words
from tests.lasting.memory_shelf import MemoryShelf

TIER = "cpu0"
T = TypeVar("T")


def at_once(call: Coroutine[Any, Any, T]) -> T:
    """Return what a call answers that has nothing to wait for."""
    try:
        call.send(None)
    except StopIteration as stop:
        answer: T = stop.value
        return answer
    call.close()
    raise AssertionError("the call waits")


class MemoryStore:
    """A `BlockStore` that is a bytearray, which tests may spoil.

    Attributes:
        reached: Whether threads may reach its bytes.
    """

    medium: int = MEDIUM_CPU
    device = "memory"
    inline_bytes: int = 256 << 10

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self.arena = bytearray(capacity_bytes)
        self.reached = False

    def write(self, position: int, data: bytes | memoryview) -> None:
        self.arena[span(position, len(data), self.capacity_bytes)] = data

    def read(self, position: int, length: int) -> bytes:
        return bytes(self.arena[span(position, length, self.capacity_bytes)])

    def write_many(self, positions: Sequence[int], blocks: Sequence[Bytes]) -> None:
        for position, block in zip(positions, blocks, strict=True):
            self.write(position, block.data)

    def read_into(self, positions: Sequence[int], blocks: Sequence[Bytes]) -> None:
        for position, block in zip(positions, blocks, strict=True):
            block.data[:] = self.read(position, len(block))

    def views(self, positions: Sequence[int], lengths: Sequence[int]) -> list[Bytes] | None:
        if not self.reached:
            return None
        whole, ranges = np.frombuffer(self.arena, np.uint8), zip(positions, lengths, strict=True)
        return [whole[span(each, length, self.capacity_bytes)] for each, length in ranges]

    def close(self) -> None: ...


class LocalNode:
    """A node, its services, and short ways to use its first tier.

    Args:
        tiers: The tiers' configurations; none is one tier of four blocks.
        shelves: Shelves of fs and obj tiers that outlived another node, by name: what is on them is
            for an `Upkeep` to find. Without, they are new ones with nothing to recover.
        new_shelf: Makes these new ones.
        settings: Further settings of the node.

    Attributes:
        node: The node.
        clock: Its clock.
        tiers: TierService.
        transfers: TransferService.
        stores: The stores of its tiers in memory.
        shelves: The shelves of its fs and obj tiers, by name.
        namespace: The fingerprint of the one namespace.
    """

    def __init__(
        self,
        *tiers: dict[str, object],
        shelves: Mapping[str, MemoryShelf] | None = None,
        new_shelf: Callable[[], MemoryShelf] = MemoryShelf,
        **settings: object,
    ) -> None:
        config = NodeConfig.model_validate(
            {"node_id": "node-a", "tiers": tiers or [cpu_tier(4)], **settings}
        )
        self.clock = ManualClock()
        self._restarts = shelves is not None
        self.shelves = shelves or {t.name: new_shelf() for t in config.tiers if t.lasts}
        self.stores = [
            MemoryStore(tier.capacity + config.spare_bytes(tier))
            for tier in config.tiers
            if not tier.lasts
        ]
        memory = iter(self.stores)
        stores = [self._keep(tier) if tier.lasts else next(memory) for tier in config.tiers]
        self.node = Node(
            config, stores, self.clock, random.Random(0), limited=Counter(), credentials=None
        )
        self.tiers = TierService(self.node)
        self.transfers = TransferService(self.node)
        self.namespace = fingerprint_of(namespace())
        if not self._restarts:
            self.node.register(namespace())
        self._ids = count(1)

    def _keep(self, tier: TierConfig) -> LastingStore:
        store = keep_on(self.shelves[tier.name], tier)
        if not self._restarts:
            store.health.recovered()
        return store

    def close(self) -> None:
        """End the node's threads."""
        self.node.threads.shutdown()
        for tier in self.node.tiers:
            tier.store.close()

    @property
    def tier(self) -> Tier:
        """The first tier."""
        return self.node.tiers[0]

    def new_id(self) -> bytes:
        """Return a lease id that was not used yet."""
        return next(self._ids).to_bytes(16, "big")

    def offer(self, *runs: BlockRun, owner: str = "engine", **fields: Any) -> PrepareStoreRequest:
        """Return an offer to the first tier."""
        return PrepareStoreRequest(
            tier=TIER,
            namespace=self.namespace,
            runs=runs,
            lease_id=self.new_id(),
            owner=owner,
            **fields,
        )

    def prepare(self, *runs: BlockRun, **fields: Any) -> tuple[Lease, PrepareStoreResponse]:
        """Take a store lease."""
        request = self.offer(*runs, **fields)
        return at_once(open_store(self.node, request, request_digest(request)))

    def fill(self, lease: Lease, blocks: Sequence[object]) -> None:
        """Write the blocks of an offer, given in its order, that its lease is to write."""
        for place, slot in lease.slots.items():
            self.write(slot, payload(blocks[place]))

    def write(self, slot: int, data: bytes) -> None:
        """Write a reserved slot of the first tier."""
        self.tier.arena.write(self.tier.position_of(slot), data)
        self.tier.mark_written([slot], [xxh3_64_intdigest(data)])

    def complete(self, lease: Lease, **fields: Any) -> CompleteStoreResponse:
        """Complete a store lease."""
        return self.complete_by(lease.reference(), **fields)

    def complete_by(self, reference: block_pb2.Lease, **fields: Any) -> CompleteStoreResponse:
        """Complete a store lease by its reference."""
        request = CompleteStoreRequest(lease=reference, **fields)
        return CompleteStoreResponse.FromString(at_once(self.tiers.complete_store(request)))

    def store(self, *blocks: object, request_id: str = "", **fields: Any) -> list[bytes]:
        """Store blocks as one chain from position 0; return the hashes that were evicted."""
        lease, answer = self.prepare(run(*blocks, **fields), request_id=request_id)
        self.fill(lease, blocks)
        self.complete(lease)
        return [each.blocks.block_hashes for each in answer.evicted]

    def look_up(self, *blocks: object, group: int = 0, scope: bytes = b"") -> list[str]:
        """Say of each block what the node says of it, such as HIT."""
        chain = blocks_of(*blocks, group=group, scope=scope)
        request = LookupBlocksRequest(namespace=self.namespace, chains=[chain], include_blocks=True)
        answer = self.tiers.lookup_blocks(request)
        assert isinstance(answer, LookupBlocksResponse), "a short lookup is answered at once"
        return words(LookupResult, answer.chains[0].results)

    def blocks(self, *blocks: object) -> list[BlockSet]:
        """Return blocks by name, for a request."""
        return [blocks_of(*blocks)]

    def batches(self, after: int = 0) -> list[EventBatch]:
        """Return the batches behind a position of the log."""
        entries = self.node.log.read(after, self.node.log.head)
        return list(EventBatches.FromString(b"".join(each.full for each in entries)).batches)

    def removals(self, after: int = 0) -> list[tuple[str, bytes]]:
        """Return reason and hashes of every removal behind a position of the log."""
        return [
            (words(RemovalReason, [event.reason])[0], event.block_hashes)
            for batch in self.batches(after)
            for event in batch.removed
        ]

    def gauges(self) -> dict[str, int]:
        """Return how many slots are ready, leased, pending, draining and free; zeros left out."""
        occupancy = self.tier.occupancy
        counts = {
            "ready": occupancy.ready,
            "leased": occupancy.leased,
            "pending": occupancy.pending,
            "draining": occupancy.draining,
            "free": self.tier.table.free,
        }
        return {state: count for state, count in counts.items() if count}
