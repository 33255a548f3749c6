"""A connection that breaks while blocks are sent is a node out of reach, not a failure inside."""

import asyncio

import pytest

from kvtier.client import NodeClient, StoreReport, UnavailableError
from kvtier.v1.result_pb2 import WriteResult
from tests.contract.conftest import Serve
from tests.contract.support import cpu_tier, namespace, run
from tests.waiting import until

from .relay import Relay

BLOCK = 8 << 20
BLOCKS = 8


@pytest.mark.parametrize("attempt", range(3))
async def test_a_store_whose_connection_is_reset_is_unavailable(serve: Serve, attempt: int) -> None:
    """Whatever gRPC says of it; the error names the node, and a new store succeeds."""
    node = await serve(cpu_tier(BLOCKS, capacity=BLOCKS * BLOCK, slot_bytes=BLOCK), register=False)
    offered, payloads = [run(*range(BLOCKS))], [bytes([attempt]) * BLOCK] * BLOCKS
    async with Relay(node.endpoint) as relay, NodeClient(relay.endpoint) as client:
        described = await client.register_namespace(namespace(block_bytes=[BLOCK]))

        async def store() -> StoreReport:
            return await client.store("cpu0", described, offered, payloads)

        storing = asyncio.create_task(store())
        await until(lambda: node.node.transfers or storing.done())
        relay.reset()
        with pytest.raises(UnavailableError, match=relay.endpoint):
            await storing

        await until(lambda: not node.node.transfers)
        node.clock.advance(60)
        assert set((await store()).results) == {WriteResult.WRITE_RESULT_STORED}
