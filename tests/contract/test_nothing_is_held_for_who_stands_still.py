"""A peer that stops reading or writing gives back what it held, in bounded time."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import grpc
import pytest

from kvtier.server.services import transfer_service
from kvtier.v1.lease_stream_pb2 import LeaseBlocksRequest, LeaseCall
from kvtier.v1.tier_service_pb2 import PrepareLoadRequest
from kvtier.v1.transfer_service_pb2 import ReadBlocksRequest, ReadTarget, WriteBlocksRequest
from kvtier.v1.transfer_service_pb2_grpc import TransferServiceStub

from .conftest import Serve
from .support import Serving, blocks_of, cpu_tier, namespace, payload, run

LARGE = 16 << 20
PATIENCE = 0.3


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for a peer without a lease for a moment only."""
    patient = transfer_service.TransferService.__init__

    def init(self: transfer_service.TransferService, node: object) -> None:
        patient(self, node, PATIENCE)  # type: ignore[arg-type]

    monkeypatch.setattr(transfer_service.TransferService, "__init__", init)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(40):
        while not true():  # noqa: ASYNC110 - what is watched has no event
            await asyncio.sleep(0.02)


async def ending(call: Any) -> grpc.StatusCode:
    """Read a call to its end, and return the status."""
    async with asyncio.timeout(40):
        with suppress(grpc.aio.AioRpcError):
            async for _ in call:
                pass
        code: grpc.StatusCode = await call.code()
        return code


async def a_large_block(serve: Serve) -> Serving:
    """A node that holds one block of more bytes than the transport hides."""
    tier = {"name": "cpu0", "medium": "cpu", "capacity": 2 * LARGE, "slot_bytes": LARGE}
    node = await serve(tier)
    large = await node.client.register_namespace(namespace("large", block_bytes=[LARGE]))
    await node.client.store("cpu0", large, [run("big")], [payload("big", LARGE)])
    return replace(node, namespace=large)


async def test_a_reader_without_a_lease_that_stops_reading_pins_nothing(serve: Serve) -> None:
    """The pins of a read last no longer than the patience of the node."""
    node = await a_large_block(serve)
    async with grpc.aio.insecure_channel(node.endpoint) as channel:
        target = ReadTarget(tier="cpu0", namespace=node.namespace, blocks=[blocks_of("big")])
        call = TransferServiceStub(channel).ReadBlocks(ReadBlocksRequest(blocks=target))
        await until(lambda: node.node.tiers[0].occupancy.leased == 1)

        await until(lambda: node.node.tiers[0].occupancy.leased == 0)

        assert node.node.transfers == 0
        assert await ending(call) is grpc.StatusCode.ABORTED


async def test_a_reader_whose_lease_ended_pins_nothing(serve: Serve) -> None:
    """A read under a lease ends with it, also when nobody reads."""
    node = await a_large_block(serve)
    prepared = await node.client.prepare_load(
        "cpu0", node.namespace, [blocks_of("big")], ttl=PATIENCE
    )
    async with grpc.aio.insecure_channel(node.endpoint) as channel:
        call = TransferServiceStub(channel).ReadBlocks(ReadBlocksRequest(lease=prepared.lease))
        await until(lambda: node.node.transfers == 1)
        node.clock.advance(1)

        await until(lambda: node.node.tiers[0].occupancy.leased == 0)

        assert await ending(call) is grpc.StatusCode.ABORTED


async def test_a_writer_whose_lease_ended_is_told_so_without_another_message(serve: Serve) -> None:
    """A write under a lease ends with it, also when nothing comes any more."""
    node = await serve()
    prepared = await node.client.prepare_store("cpu0", node.namespace, [run("a")], ttl=PATIENCE)

    async def silent() -> AsyncIterator[WriteBlocksRequest]:
        yield WriteBlocksRequest(lease=prepared.lease)
        await until(lambda: node.node.transfers == 1)
        node.clock.advance(1)
        await asyncio.sleep(60)

    async with grpc.aio.insecure_channel(node.endpoint) as channel:
        code = await ending(TransferServiceStub(channel).WriteBlocks(silent()))

    assert code is grpc.StatusCode.ABORTED
    assert node.node.transfers == 0


async def test_a_call_without_a_first_message_ends(serve: Serve) -> None:
    """A write that never says what it is about gives its place back."""
    node = await serve()

    async def nothing() -> AsyncIterator[WriteBlocksRequest]:
        await asyncio.sleep(60)
        yield WriteBlocksRequest()

    async with grpc.aio.insecure_channel(node.endpoint) as channel:
        call = TransferServiceStub(channel).WriteBlocks(nothing())

        assert await ending(call) is grpc.StatusCode.ABORTED


async def test_a_caller_that_reads_no_answers_is_given_up(serve: Serve) -> None:
    """A stream of calls ends, with all that waits on it, when its answers are not read."""
    node = await serve(cpu_tier(1 << 14), limits={"hashes": 1 << 14})
    await node.store(*range(1 << 13))
    large = PrepareLoadRequest(
        tier="cpu0", namespace=node.namespace, blocks=[blocks_of(*range(1 << 13))], owner="caller"
    )

    async def calls() -> AsyncIterator[LeaseBlocksRequest]:
        for number in range(1, 1 << 16):
            large.lease_id = number.to_bytes(16, "big")
            yield LeaseBlocksRequest(calls=[LeaseCall(number=number, prepare_load=large)])

    async with grpc.aio.insecure_channel(node.endpoint) as channel:
        call = TransferServiceStub(channel).LeaseBlocks(calls())
        await until(lambda: streams() == 1)

        await until(lambda: streams() == 0)

        assert await ending(call) is not grpc.StatusCode.OK


def streams() -> int:
    """How many streams of calls are served."""
    names = [getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks()]
    return names.count("LeaseStream._read")
