"""Every RPC has a method, in the asynchronous client and in the blocking one."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from kvtier.client import BlockingNodeClient, KvtierError, NodeClient
from kvtier.client.mapped.streamed import StreamedLeases
from kvtier.v1.block_pb2 import Lease
from kvtier.v1.listing_pb2 import ListBlocksRequest

from .fakes import SERVICES, FakeNode
from .messages import FINGERPRINT, NAMESPACE, block_run, block_set

_RPCS = {method.name for service in SERVICES for method in service.methods}
_LIFE = {"close", "credentials", "endpoint", "owner"}


def _public(kind: type) -> dict[str, Any]:
    members = inspect.getmembers(kind)
    return {name: member for name, member in members if name[0] != "_" and name not in _LIFE}


async def _empty(stream: AsyncIterator[Any]) -> None:
    async for _ in stream:
        pass


async def _over_a_stream(client: NodeClient, lease: Lease) -> None:
    """Make a call as `blocks` does where a tier is mapped, which no scripted node has."""
    leases = StreamedLeases(client._connection)
    await leases.complete_load(lease)
    await leases.close()


async def test_every_rpc_is_called_by_a_method(node: FakeNode, client: NodeClient) -> None:
    """Calling every method of the client calls every RPC of the services, and no other."""
    runs, sets, lease = [block_run(1)], [block_set(1)], Lease(id=b"i" * 16)
    calls: dict[str, Callable[[], Awaitable[Any]]] = {
        "get_node": client.get_node,
        "list_tiers": client.list_tiers,
        "register_namespace": lambda: client.register_namespace(NAMESPACE),
        "list_namespaces": client.list_namespaces,
        "delete_namespace": lambda: client.delete_namespace(FINGERPRINT),
        "lookup": lambda: client.lookup(FINGERPRINT, sets),
        "prepare_store": lambda: client.prepare_store("cpu0", FINGERPRINT, runs),
        "complete_store": lambda: client.complete_store(lease),
        "prepare_load": lambda: client.prepare_load("cpu0", FINGERPRINT, sets),
        "complete_load": lambda: client.complete_load(lease),
        "renew_leases": lambda: client.renew_leases([lease]),
        "release_leases": lambda: client.release_leases([lease]),
        "pin": lambda: client.pin("cpu0", FINGERPRINT, sets),
        "unpin": lambda: client.unpin([lease]),
        "touch": lambda: client.touch(FINGERPRINT, sets),
        "copy": lambda: _empty(client.copy(FINGERPRINT, runs, from_tier="cpu0", to_tier="gpu0")),
        "delete": lambda: client.delete(FINGERPRINT, sets),
        "clear": lambda: client.clear("cpu0"),
        "list_blocks": lambda: _empty(client.list_blocks()),
        "list_blocks_page": lambda: client.list_blocks_page(ListBlocksRequest()),
        "drain": client.drain,
        "describe_block": lambda: client.describe_block(FINGERPRINT, 0, b"", b"h"),
        "map_tier": lambda: client.map_tier("cpu0"),
        "write_blocks": lambda: client.write_blocks(lease, {}, []),
        "read_blocks": lambda: client.read_blocks(lease, []),
        "read_blocks_into": lambda: client.read_blocks_into(lease, []),
        "watch_events": lambda: _empty(client.watch_events()),
        "blocks": lambda: _over_a_stream(client, lease),
    }

    for call in calls.values():
        await call()

    assert set(node.names()) == _RPCS
    # These are made of RPCs that other methods call too, or are of grpc.health.v1.
    others = {"store", "load", "load_into", "is_ready"}
    assert set(_public(NodeClient)) == set(calls) | others


async def test_every_unary_call_has_a_deadline(node: FakeNode) -> None:
    """No unary call can wait for ever, and streams have no fixed end."""
    async with NodeClient(node.endpoint, timeout=7.0) as client:
        await test_every_rpc_is_called_by_a_method(node, client)

    streams = {
        method.name for service in SERVICES for method in service.methods if method.server_streaming
    }
    for name, left in node.deadlines.items():
        if name in streams:
            assert left is None
        elif name == "Drain":
            # It takes as long as leases and transfers take to end.
            assert left is not None
            assert 3600 < left < 3700
        else:
            assert left is not None
            assert 0 < left < 7.5


def test_the_blocking_client_has_every_method() -> None:
    """Each method of the asynchronous client is there, with its parameters and its words."""
    asynchronous, blocking = _public(NodeClient), _public(BlockingNodeClient)

    assert set(blocking) == set(asynchronous)
    for name, method in asynchronous.items():
        assert inspect.signature(blocking[name]).parameters == inspect.signature(method).parameters
        assert blocking[name].__doc__ == method.__doc__
        assert not inspect.iscoroutinefunction(blocking[name])


@pytest.mark.parametrize("name", sorted(_public(NodeClient)))
def test_every_method_is_documented(name: str) -> None:
    """A public method says what it does."""
    assert (inspect.getdoc(getattr(NodeClient, name)) or "").endswith((".", "```"))


async def test_a_closed_client_says_so(node: FakeNode) -> None:
    """After closing, a call names the endpoint and what to do; closing twice is harmless."""
    client = NodeClient(node.endpoint)
    await client.get_node()
    await client.close()
    await client.close()

    with pytest.raises(KvtierError, match=f"the client of {node.endpoint} is closed"):
        await client.get_node()
    with pytest.raises(KvtierError, match="is closed"):
        await client.read_blocks(Lease(), [])
    with pytest.raises(KvtierError, match="is closed"):
        client.watch_events()
