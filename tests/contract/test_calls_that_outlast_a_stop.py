"""Who is still calling when a server closes hears why, and not only that the call is over."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio
import pytest

from kvtier.v1.tier_service_pb2 import GetNodeRequest
from kvtier.v1.tier_service_pb2_grpc import TierServiceStub
from kvtier.v1.transfer_service_pb2_grpc import TransferServiceStub
from kvtier.wire.errors import KvtierError, Reason
from tests.waiting import until

from .conftest import Serve
from .support import cpu_tier
from .wire import refusal


async def silence() -> AsyncIterator[Any]:
    """The requests of a call that sends none."""
    await asyncio.Event().wait()
    yield None


async def ending(call: Any) -> KvtierError:
    """Wait until a call fails, and return what it was told."""
    async with asyncio.timeout(10):
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await call
    return refusal(error.value)


@pytest.mark.parametrize("hurried", [False, True], ids=["stop", "stop in a hurry"])
async def test_a_call_that_does_not_end_is_ended_with_the_reason(
    serve: Serve, hurried: bool
) -> None:
    """Such as a write whose first message never comes, which holds no drain up."""
    node = await serve(cpu_tier(4))
    async with grpc.aio.insecure_channel(node.endpoint) as channel:
        stub: Any = TransferServiceStub(channel)
        call = stub.WriteBlocks(silence())
        await until(lambda: node.server.serving.limits.calls)
        if hurried:
            node.server.hurry()

        stopping = asyncio.create_task(node.server.drain_and_stop())
        told = await ending(call.read())
        await stopping

    assert (told.code.name, told.reason) == ("UNAVAILABLE", Reason.DRAINING)


async def test_a_caller_that_goes_on_hears_the_reason(serve: Serve) -> None:
    """What it calls in the delay is answered, and then it is told to go elsewhere."""
    node = await serve(cpu_tier(4), drain_delay=0.5)
    async with grpc.aio.insecure_channel(node.endpoint) as channel:
        stub: Any = TierServiceStub(channel)
        stopping = asyncio.create_task(node.server.drain_and_stop())
        told: list[KvtierError] = []
        while not told:
            try:
                await stub.GetNode(GetNodeRequest())
            except grpc.aio.AioRpcError as error:
                told.append(refusal(error))
        await stopping

    assert [(each.code.name, each.reason) for each in told] == [("UNAVAILABLE", Reason.DRAINING)]
