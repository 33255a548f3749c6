"""Callers that do not read keep other readers waiting at most, and no store."""

import asyncio
from contextlib import AsyncExitStack

import grpc

from kvtier.v1.result_pb2 import WriteResult
from kvtier.v1.transfer_service_pb2 import ReadBlocksRequest, ReadBlocksResponse, ReadTarget
from kvtier.v1.transfer_service_pb2_grpc import TransferServiceStub
from tests.waiting import until

from .conftest import Serve
from .support import blocks_of, namespace, payload, run, words

LARGE = 16 << 20
# Room for one read and one write.
LIMIT = 4 << 20


async def test_a_store_goes_on_while_reads_wait(serve: Serve) -> None:
    """One caller holds all that reads may have; another waits for it; a store does not."""
    tier = {"name": "cpu0", "medium": "cpu", "capacity": 2 * LARGE, "slot_bytes": LARGE}
    node = await serve(tier, limits={"transfer_bytes": LIMIT})
    large = await node.client.register_namespace(namespace("large", block_bytes=[LARGE]))
    await node.client.store("cpu0", large, [run("a")], [payload("a", LARGE)])
    target = ReadTarget(tier="cpu0", namespace=large, blocks=[blocks_of("a")])
    async with AsyncExitStack() as stack:
        calls = []
        for _ in range(2):
            options = [("grpc.use_local_subchannel_pool", 1)]
            channel = grpc.aio.insecure_channel(node.endpoint, options=options)
            await stack.enter_async_context(channel)
            calls.append(TransferServiceStub(channel).ReadBlocks(ReadBlocksRequest(blocks=target)))
        await until(lambda: node.node.transfers == 2 and node.node.read_bytes.used > 0)

        async with asyncio.timeout(20):
            report = await node.client.store("cpu0", large, [run("b")], [payload("b", LARGE)])
            read = await asyncio.gather(*map(_everything, calls))

    assert words(WriteResult, report.results) == ["STORED"]
    assert read == [payload("a", LARGE)] * 2
    assert (node.node.read_bytes.used, node.node.write_bytes.used) == (0, 0)


async def _everything(
    call: "grpc.aio.UnaryStreamCall[ReadBlocksRequest, ReadBlocksResponse]",
) -> bytes:
    return b"".join([answer.data async for answer in call])
