"""One mapped tier: storing into its slots and reading in them, by leases."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvtier.client.chunks import framing_error
from kvtier.client.errors import AbortedError
from kvtier.client.leases import LeaseCalls
from kvtier.client.mapped.buffers import Bytes, address_of
from kvtier.client.mapped.copies import Copy, Workers, copy_all, hash_all
from kvtier.client.mapped.file import MappedFile
from kvtier.client.mapped.offers import places_to_write, write_results
from kvtier.client.mapped.ways import Found, blocks_closed, let_go
from kvtier.client.reports import DataPath, StoreReport
from kvtier.v1.block_pb2 import BlockRun, BlockSet
from kvtier.v1.result_pb2 import (
    READ_RESULT_CORRUPT,
    READ_RESULT_MISS,
    READ_RESULT_UNSPECIFIED,
    LookupResult,
)
from kvtier.v1.tier_service_pb2 import PrepareLoadResponse
from kvtier.v1.transfer_service_pb2 import MapTierResponse

if TYPE_CHECKING:
    from kvtier.client.node import NodeClient

_HIT = LookupResult.LOOKUP_RESULT_HIT


class MappedTier:
    """A `Way` through a host tier's file, which this process has mapped.

    Args:
        client: The node's client.
        tier: The tier's name.
        told: What the node told of the mapping.
        file: The mapped file.
        workers: Where bytes are copied.
        leases: The calls of leases that each batch makes.
    """

    path = DataPath.SHARED_MEMORY

    def __init__(
        self,
        client: "NodeClient",
        tier: str,
        told: MapTierResponse,
        file: MappedFile,
        workers: Workers,
        *,
        leases: LeaseCalls,
    ) -> None:
        self.file = file
        self.leases = leases
        self._client = client
        self._tier = tier
        self._number = told.mapping
        self._slot_bytes = told.slot_bytes
        self._workers = workers

    async def store(
        self,
        namespace: bytes,
        runs: Sequence[BlockRun],
        sources: Sequence[Bytes],
        *,
        width: int,
        ttl: float | None,
        request_id: str,
    ) -> StoreReport:
        """See `Way`: prepare, copy into the slots, and complete."""
        answer = await self.leases.prepare_store(
            self._tier, namespace, runs, ttl=ttl, request_id=request_id, mapping=self._number
        )
        try:
            places = places_to_write(answer, runs, width)
            checksums = await self._fill(answer.slots, [sources[place] for place in places])
            done = await self.leases.complete_store(answer.lease, checksums=checksums)
        except AbortedError:
            # The completion was the word that ends the quarantine of the slots.
            raise
        except BaseException:
            await let_go(self.leases, answer.lease)
            raise
        return StoreReport(
            outcomes=tuple(answer.outcomes),
            evicted=tuple(answer.evicted),
            results=tuple(write_results(done.results)),
            path=self.path,
        )

    async def pin(
        self, namespace: bytes, blocks: Sequence[BlockSet], *, ttl: float | None, request_id: str
    ) -> PrepareLoadResponse:
        """Pin blocks, and be told their slots."""
        return await self.leases.prepare_load(
            self._tier, namespace, blocks, ttl=ttl, request_id=request_id, mapping=self._number
        )

    async def copy_out(self, answer: PrepareLoadResponse, targets: Sequence[Bytes]) -> Found:
        """Copy pinned blocks; return those that are equal to their checksums."""
        hits = [place for place, result in enumerate(answer.results) if result == _HIT]
        views = [targets[place].view for place in hits]
        slots = [answer.slots[place] for place in hits]
        positions = await self._positions(slots, views)
        jobs = [
            Copy(view, address_of(view), self.file.address + position)
            for view, position in zip(views, positions, strict=True)
        ]
        found = await self._workers.run(copy_all, jobs, sum(map(len, views)))
        return _verified(answer, hits, views, found)

    async def look_in(self, answer: PrepareLoadResponse, sizes: Sequence[int]) -> Found:
        """Return views of the pinned blocks that are equal to their checksums."""
        hits = [place for place, result in enumerate(answer.results) if result == _HIT]
        slots = [answer.slots[place] for place in hits]
        lengths = [range(sizes[place]) for place in hits]
        positions = await self._positions(slots, lengths)
        views = [
            self.file.view[position : position + len(length)].toreadonly()
            for position, length in zip(positions, lengths, strict=True)
        ]
        found = await self._workers.run(hash_all, views, sum(map(len, views)))
        return _verified(answer, hits, views, found)

    async def _fill(self, slots: Sequence[int], sources: Sequence[Bytes]) -> list[int]:
        views = [source.view for source in sources]
        positions = await self._positions(slots, views)
        jobs = [
            Copy(
                self.file.view[position : position + len(view)],
                self.file.address + position,
                address_of(view),
            )
            for view, position in zip(views, positions, strict=True)
        ]
        return await self._workers.run(copy_all, jobs, sum(map(len, views)))

    async def _positions(
        self, slots: Sequence[int], lengths: Sequence[memoryview | range]
    ) -> list[int]:
        """Return where each slot begins, once it is sure to lie within the file."""
        if slots and not self._slot_bytes:
            tiers = await self._client.list_tiers()
            self._slot_bytes = next(t.slot_bytes for t in tiers if t.name == self._tier)
        positions = [slot * self._slot_bytes for slot in slots]
        # Nothing is awaited from here to the copy, which a closed file would not survive.
        if self.file.closed:
            raise blocks_closed(self._tier)
        end = len(self.file.view)
        for position, each in zip(positions, lengths, strict=True):
            if len(each) > self._slot_bytes or position + len(each) > end:
                raise framing_error(f"a slot at byte {position} of {end}, for {len(each)} bytes")
        return positions


def _verified(
    answer: PrepareLoadResponse,
    hits: Sequence[int],
    views: Sequence[memoryview],
    found: Sequence[int],
) -> Found:
    payloads: list[memoryview | None] = [None] * len(answer.results)
    results = [READ_RESULT_MISS] * len(answer.results)
    for place, view, checksum in zip(hits, views, found, strict=True):
        right = checksum == answer.checksums[place]
        payloads[place] = view if right else None
        results[place] = READ_RESULT_UNSPECIFIED if right else READ_RESULT_CORRUPT
    return payloads, results
