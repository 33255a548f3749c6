"""A node in this process whose bytes are in plain memory, driven without gRPC."""

import random
from collections.abc import Coroutine, Sequence
from itertools import count
from typing import Any, TypeVar

from xxhash import xxh3_64_intdigest

from kvtier.server.clock import ManualClock
from kvtier.server.config import NodeConfig
from kvtier.server.leases import Lease
from kvtier.server.node import Node
from kvtier.server.operations.requests import request_digest
from kvtier.server.operations.storing import open_store
from kvtier.server.services.tier_service import TierService
from kvtier.server.services.transfer_service import TransferService
from kvtier.server.stores.base import Bytes, span
from kvtier.server.tiers.tier import Tier
from kvtier.v1 import block_pb2
from kvtier.v1.block_pb2 import MEDIUM_CPU, BlockRun, BlockSet, RemovalReason
from kvtier.v1.event_service_pb2 import EventBatch, EventBatches
from kvtier.v1.result_pb2 import LookupResult
from kvtier.v1.tier_service_pb2 import (
    CompleteStoreRequest,
    CompleteStoreResponse,
    LookupBlocksRequest,
    LookupBlocksResponse,
    PrepareStoreRequest,
    PrepareStoreResponse,
)
from tests.contract.support import blocks_of, cpu_tier, namespace, payload, run, words

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
    """A `BlockStore` that is a bytearray, which tests may spoil."""

    medium: int = MEDIUM_CPU
    device = "memory"
    inline_bytes: int = 256 << 10

    def __init__(self, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self.arena = bytearray(capacity_bytes)

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

    def views(self, positions: Sequence[int], lengths: Sequence[int]) -> None: ...

    def close(self) -> None: ...


class LocalNode:
    """A node, its services, and short ways to use its first tier.

    Args:
        tiers: The tiers' configurations; none is one tier of four blocks.
        settings: Further settings of the node.

    Attributes:
        node: The node.
        clock: Its clock.
        tiers: TierService.
        transfers: TransferService.
        stores: The tiers' stores.
        namespace: The fingerprint of the one namespace.
    """

    def __init__(self, *tiers: dict[str, object], **settings: object) -> None:
        config = NodeConfig.model_validate(
            {"node_id": "node-a", "tiers": tiers or [cpu_tier(4)], **settings}
        )
        self.clock = ManualClock()
        self.stores = [
            MemoryStore(tier.capacity + config.spare_bytes(tier)) for tier in config.tiers
        ]
        self.node = Node(config, self.stores, self.clock, random.Random(0))
        self.tiers = TierService(self.node)
        self.transfers = TransferService(self.node)
        self.namespace = self.node.register(namespace()).fingerprint
        self._ids = count(1)

    def close(self) -> None:
        """End the node's threads."""
        self.node.threads.shutdown()

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
        self.tier.store.write(self.tier.position_of(slot), data)
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
