"""Asking for a tier, or a kind of storage, that a node does not have hurts nobody."""

from collections.abc import Awaitable, Callable
from typing import Any

import grpc.aio
import pytest
from google.protobuf.descriptor import Descriptor

from kvtier.client import InvalidArgumentError, NodeClient, NotFoundError, Reason
from kvtier.client.mapped.streamed import StreamedLeases
from kvtier.v1.block_pb2 import Medium

from .conftest import Serve
from .following import following
from .support import blocks_of, payload, run
from .wire import METHODS

NAMES = ["gpu0", "fs0", "obj0", "remote0", "CPU0", "cpu", ""]

Call = Callable[[NodeClient, bytes, str], Awaitable[Any]]


async def list_blocks(client: NodeClient, _: bytes, tier: str) -> None:
    async for _block in client.list_blocks(tiers=[tier]):
        pass


async def follow(client: NodeClient, _: bytes, tier: str) -> None:
    await anext(client.watch_events(tiers=[tier]))


async def copy(client: NodeClient, namespace: bytes, tier: str) -> None:
    async for _answer in client.copy(namespace, [run(1)], from_tier=tier, to_tier="cpu0"):
        pass


async def prepare_on_a_stream(client: NodeClient, namespace: bytes, tier: str) -> None:
    leases = StreamedLeases(client._connection)
    try:
        await leases.prepare_store(tier, namespace, [run(1)])
    finally:
        await leases.close()


CALLS: dict[str, Call] = {
    "EventService.WatchEvents": follow,
    "TierService.PrepareStore": lambda c, n, t: c.prepare_store(t, n, [run(1)]),
    "TierService.PrepareLoad": lambda c, n, t: c.prepare_load(t, n, [blocks_of(1)]),
    "TierService.PinBlocks": lambda c, n, t: c.pin(t, n, [blocks_of(1)]),
    "TierService.TouchBlocks": lambda c, n, t: c.touch(n, [blocks_of(1)], tiers=[t]),
    "TierService.CopyBlocks": copy,
    "TierService.DeleteBlocks": lambda c, n, t: c.delete(n, [blocks_of(1)], tiers=["cpu0", t]),
    "TierService.ClearTier": lambda c, _, t: c.clear(t, force=True),
    "TierService.ListBlocks": list_blocks,
    "TransferService.LeaseBlocks": prepare_on_a_stream,
    "TransferService.MapTier": lambda c, _, t: c.map_tier(t),
    "TransferService.WriteBlocks": lambda c, n, t: c.store(t, n, [run(2)], [payload(2)]),
    "TransferService.ReadBlocks": lambda c, n, t: c.load(t, n, [blocks_of(1)]),
}


def names_a_tier(message: Descriptor) -> bool:
    fields: Any = message.fields
    return any(
        field.name in {"tier", "tiers", "from_tier"}
        or (field.message_type is not None and names_a_tier(field.message_type))
        for field in fields
    )


def test_every_rpc_that_names_a_tier_is_tried() -> None:
    """Whoever adds an RPC for a tier says here how it is called."""
    assert set(CALLS) == {rpc for rpc, m in METHODS.items() if names_a_tier(m.input_type)}


@pytest.mark.parametrize("tier", NAMES)
@pytest.mark.parametrize("rpc", CALLS)
async def test_a_tier_that_is_not_there_is_not_found(serve: Serve, rpc: str, tier: str) -> None:
    """The answer names it and what there is instead; the node is as it was and goes on."""
    node = await serve()
    await node.store(1)
    before = await node.client.get_node()

    with pytest.raises(NotFoundError) as refused:
        await CALLS[rpc](node.client, node.namespace, tier)

    assert refused.value.reason == Reason.TIER_UNKNOWN
    assert repr(tier) in refused.value.message
    assert "cpu0" in refused.value.message
    after = await node.client.get_node()
    assert (after.head, after.leases) == (before.head, 0)
    assert await node.look_up(1) == ["HIT"]


@pytest.mark.parametrize("medium", [5, 99, -1, 2**31 - 1])
async def test_a_kind_of_storage_that_nobody_knows_is_refused(serve: Serve, medium: int) -> None:
    """A number that stands for no medium is told, whatever a later version may call it."""
    node = await serve()

    with pytest.raises(InvalidArgumentError, match=str(medium)):
        await anext(node.client.watch_events(media=[Medium.ValueType(medium)]))

    assert await node.look_up(1) == ["MISS"]


async def test_a_kind_of_storage_that_the_node_lacks_is_seen_empty(serve: Serve) -> None:
    """Following GPU tiers of a node that has none is no mistake: there is nothing to see."""
    node = await serve()
    await node.store(1)
    async with following(node.endpoint, media=[Medium.MEDIUM_GPU]) as follower:
        await node.store(2)
        await follower.settle(node.client)

    assert follower.fold.view == {}
    assert not follower.batches


async def test_an_rpc_that_the_node_does_not_have_is_unimplemented(serve: Serve) -> None:
    """A client of a later version is told so by gRPC itself, and the node goes on."""
    node = await serve()
    async with grpc.aio.insecure_channel(node.endpoint) as channel:
        later: Any = channel.unary_unary("/kvtier.v1.TierService/LaterCall")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await later(b"")

    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert await node.look_up(1) == ["MISS"]
