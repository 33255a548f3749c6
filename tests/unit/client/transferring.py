"""Both ends of scripted transfers."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import xxhash

from kvtier.v1.block_pb2 import BlockSet, NamespacedBlocks
from kvtier.v1.result_pb2 import ReadResult, StoreOutcome, WriteResult
from kvtier.v1.tier_service_pb2 import (
    PrepareStoreResponse,
)
from kvtier.v1.transfer_service_pb2 import (
    ReadBlocksResponse,
    WriteBlocksRequest,
    WriteBlocksResponse,
)

from .fakes import Handler

WRITE, PRESENT = StoreOutcome.STORE_OUTCOME_WRITE, StoreOutcome.STORE_OUTCOME_PRESENT
STORED, WRITTEN = WriteResult.WRITE_RESULT_STORED, WriteResult.WRITE_RESULT_WRITTEN
DAMAGED = WriteResult.WRITE_RESULT_CORRUPT
NOTHING = WriteResult.WRITE_RESULT_UNSPECIFIED
MISS, CORRUPT = ReadResult.READ_RESULT_MISS, ReadResult.READ_RESULT_CORRUPT
MIB = 1 << 20


def payload_of(place: int, size: int) -> bytes:
    return bytes([place + 1]) * size


def by_place(chunks: Sequence[Any], sizes: Sequence[int]) -> dict[int, bytes]:
    """Return the bytes of each block as a receiver that goes by places alone would."""
    found: dict[int, bytearray] = {}
    for chunk in chunks:
        place, offset, data = chunk.block_index, chunk.offset, chunk.data
        while data:
            block = found.setdefault(place, bytearray())
            assert len(block) == offset
            piece = data[: sizes[place] - offset]
            block += piece
            data, place, offset = data[len(piece) :], place + 1, 0
    return {place: bytes(block) for place, block in found.items()}


class Writer:
    """The receiving end of WriteBlocks.

    Attributes:
        requests: What came.
        before: How many requests had come when the offer was answered.
    """

    def __init__(self, *outcomes: StoreOutcome.ValueType, evicted: bytes = b"") -> None:
        self.requests: list[WriteBlocksRequest] = []
        self.before = 0
        self._outcomes = outcomes
        self._evicted = evicted

    async def __call__(self, requests: AsyncIterator[Any]) -> AsyncIterator[WriteBlocksResponse]:
        wanted = [i for i, outcome in enumerate(self._outcomes) if outcome == WRITE]
        async for request in requests:
            self.requests.append(request)
            if request.data and request.HasField("offer"):
                results = [STORED] * len(wanted)
                yield WriteBlocksResponse(
                    prepared=self._prepared(), block_indexes=wanted, results=results
                )
                return
            if request.HasField("offer"):
                self.before = len(self.requests)
                yield WriteBlocksResponse(prepared=self._prepared())
        for place in wanted:
            yield WriteBlocksResponse(block_indexes=[place], results=[STORED])

    def _prepared(self) -> PrepareStoreResponse:
        evicted = [NamespacedBlocks(blocks=BlockSet(block_hashes=self._evicted))]
        return PrepareStoreResponse(
            outcomes=self._outcomes, evicted=evicted if self._evicted else []
        )


def sender(sizes: Sequence[int], missing: Sequence[int] = (), chunk: int = 100) -> Handler:
    """Return a handler that sends blocks, running on over those that are missing."""

    async def send(_: Any) -> AsyncIterator[ReadBlocksResponse]:
        yield ReadBlocksResponse(block_indexes=missing, results=[MISS] * len(missing))
        places = [place for place in range(len(sizes)) if place not in missing]
        stream = [(p, o, payload_of(p, sizes[p])[o]) for p in places for o in range(sizes[p])]
        for start in range(0, len(stream), chunk):
            part = stream[start : start + chunk]
            yield ReadBlocksResponse(
                block_index=part[0][0],
                offset=part[0][1],
                checksums=[
                    xxhash.xxh3_64_intdigest(payload_of(p, sizes[p]))
                    for p, o, _ in part
                    if o == sizes[p] - 1
                ],
                data=bytes(byte for _, _, byte in part),
            )

    return send


async def stall(requests: Any) -> AsyncIterator[Any]:
    await asyncio.Event().wait()
    yield WriteBlocksResponse()
