"""Readers that do not read cost a node no more memory than its limit, and are served in the end."""

import asyncio
from contextlib import AsyncExitStack

import grpc
import pytest

from kvtier.client import NodeClient
from kvtier.v1.transfer_service_pb2 import ReadBlocksRequest, ReadBlocksResponse, ReadTarget
from kvtier.v1.transfer_service_pb2_grpc import TransferServiceStub
from tests.contract.support import blocks_of, namespace, payload, run

from .bulk import resident_bytes
from .conftest import StartNode

MIB = 1 << 20
LARGE, READERS, LIMIT = 8 * MIB, 64, 16 * MIB
# What connections cost, and what the transport has under way; not a fifth of what readers ask for.
MARGIN = 48 * MIB


@pytest.mark.slow
async def test_readers_that_do_not_read_take_turns_in_bounded_memory(start_node: StartNode) -> None:
    """Sixty-four calls: memory stays within half of the limit, and no block is missing."""
    tier = {"name": "cpu0", "medium": "cpu", "capacity": 4 * LARGE, "slot_bytes": LARGE}
    node = await start_node(tiers=[tier], limits={"transfer_bytes": 2 * LIMIT})
    names = ("a", "b", "c", "d")
    async with NodeClient(node.endpoint) as client, AsyncExitStack() as stack:
        large = await client.register_namespace(namespace(block_bytes=[LARGE]))
        for name in names:
            await client.store("cpu0", large, [run(name)], [payload(name, LARGE)])
        await client.load("cpu0", large, [blocks_of(*names)])
        target = ReadTarget(tier="cpu0", namespace=large, blocks=[blocks_of(*names)])
        before = resident_bytes(node)
        calls = []
        for _ in range(READERS):
            options = [("grpc.use_local_subchannel_pool", 1)]
            channel = grpc.aio.insecure_channel(node.endpoint, options=options)
            await stack.enter_async_context(channel)
            calls.append(TransferServiceStub(channel).ReadBlocks(ReadBlocksRequest(blocks=target)))
        grown = []
        for _ in range(10):
            await asyncio.sleep(0.2)
            grown.append(resident_bytes(node) - before)
        counts = await asyncio.gather(*map(_bytes_of, calls))

    assert max(grown) < LIMIT + MARGIN
    assert counts == [len(names) * LARGE] * READERS


async def _bytes_of(call: "grpc.aio.UnaryStreamCall[ReadBlocksRequest, ReadBlocksResponse]") -> int:
    counts = [len(answer.data) async for answer in call]
    return sum(counts)
