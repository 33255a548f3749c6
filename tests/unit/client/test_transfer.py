"""Transfers that stand still end, and those that move go on."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import xxhash

from kvtier.client import (
    DeadlineError,
    NodeClient,
    sending,
)
from kvtier.v1.block_pb2 import Lease
from kvtier.v1.tier_service_pb2 import PrepareStoreResponse
from kvtier.v1.transfer_service_pb2 import ReadBlocksResponse, WriteBlocksResponse

from .fakes import FakeNode
from .messages import FINGERPRINT, LARGE_FINGERPRINT, block_run, block_set
from .transferring import WRITE, payload_of, stall


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.store("cpu0", FINGERPRINT, [block_run(1)], [bytes(64)]),
        lambda client: client.write_blocks(Lease(id=b"i" * 16), {0: b"x"}, [1]),
        lambda client: client.load("cpu0", FINGERPRINT, [block_set(1)]),
        lambda client: client.read_blocks(Lease(id=b"i" * 16), [1]),
    ],
)
async def test_a_transfer_that_stands_still_ends(
    knowing: FakeNode, call: Callable[[NodeClient], Any]
) -> None:
    """A node that stops in the middle costs the caller its timeout."""
    knowing.on("WriteBlocks", stall)
    knowing.on("ReadBlocks", stall)
    started = time.monotonic()

    async with NodeClient(knowing.endpoint, timeout=1.0) as client:
        with pytest.raises(DeadlineError, match=r"(stood still for|did not answer within) 1 s"):
            await call(client)

    assert time.monotonic() - started < 10


async def test_a_transfer_may_take_longer_than_the_timeout_while_it_moves(
    knowing: FakeNode,
) -> None:
    """The timeout counts from the last message, not from the start."""

    async def slow(_: Any) -> AsyncIterator[ReadBlocksResponse]:
        data = payload_of(0, 64)
        for offset in range(64):
            await asyncio.sleep(0.02)
            checksums = [xxhash.xxh3_64_intdigest(data)] if offset == 63 else []
            piece = data[offset : offset + 1]
            yield ReadBlocksResponse(offset=offset, checksums=checksums, data=piece)

    knowing.on("ReadBlocks", slow)
    async with NodeClient(knowing.endpoint, timeout=0.6) as client:
        started = time.monotonic()

        report = await client.load("cpu0", FINGERPRINT, [block_set(1)])

    assert time.monotonic() - started > 0.6
    assert report.payloads == (payload_of(0, 64),)


async def test_a_slow_node_does_not_make_the_client_queue_everything(
    knowing: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a node does not take is neither read nor checksummed, a few messages apart."""
    begun: list[int] = []

    def checksum(data: memoryview) -> int:
        begun.append(len(data))
        return xxhash.xxh3_64_intdigest(data)

    async def take_only_the_offer(requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
        await anext(requests)
        yield WriteBlocksResponse(prepared=PrepareStoreResponse(outcomes=[WRITE] * 64))
        await asyncio.Event().wait()

    monkeypatch.setattr(sending, "xxh3_64_intdigest", checksum)
    knowing.on("WriteBlocks", take_only_the_offer)
    payloads = [bytes(700_000)] * 64
    async with NodeClient(knowing.endpoint, timeout=1.0) as client:
        with pytest.raises(DeadlineError):
            await client.store("cpu0", LARGE_FINGERPRINT, [block_run(*range(1, 65))], payloads)

    assert 0 < sum(begun) < 16 << 20 < sum(map(len, payloads))
