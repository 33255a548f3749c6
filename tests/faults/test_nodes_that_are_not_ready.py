"""In whatever order a proxy and its nodes start, it comes to know what they hold by itself."""

import asyncio
import random
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc.aio
import pytest

from kvtier.client import NodeClient, Quality, TieringProxy
from kvtier.v1.result_pb2 import LookupResult
from tests.contract.conftest import Serve
from tests.contract.support import Serving, blocks_of, cpu_tier, hash_set, words
from tests.contract.viewing import View, proxying

from .relay import Relay

NODES = 3
# Long enough for pauses between tries to grow, short enough for many orders.
LATEST_SECONDS = 2.0


@dataclass
class Place:
    """Where a node will be.

    Attributes:
        endpoint: Where clients look for it.
        listen: Where it will listen.
        prepare: Makes way for it.
        open: Lets clients reach it.
    """

    endpoint: str
    listen: str
    prepare: Callable[[], Awaitable[None]]
    open: Callable[[], None]


async def _nothing() -> None:
    pass


@asynccontextmanager
async def closed_port() -> AsyncIterator[Place]:
    """Connections are refused until the node is there."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        endpoint = f"127.0.0.1:{held.getsockname()[1]}"
        yield Place(endpoint, endpoint, lambda: _release(held), lambda: None)


async def _release(held: socket.socket) -> None:
    held.close()


@asynccontextmanager
async def broken_connections() -> AsyncIterator[Place]:
    """Connections are taken and broken at once, for a while after the node is there."""
    async with Relay("") as relay, closed_port() as behind:

        def open_up() -> None:
            relay.target = behind.listen

        yield Place(relay.endpoint, behind.listen, behind.prepare, open_up)


class _Refusing(grpc.GenericRpcHandler):
    """Answers every call with UNAVAILABLE."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        async def refuse(_: Any, context: Any) -> None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "not ready yet")

        return grpc.stream_stream_rpc_method_handler(refuse)


@asynccontextmanager
async def refused_calls() -> AsyncIterator[Place]:
    """Another server on the node's address says that it is not ready, then makes way."""
    server = grpc.aio.server(handlers=[_Refusing()], options=[("grpc.so_reuseport", 0)])
    endpoint = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()

    async def make_way() -> None:
        await server.stop(None)

    try:
        yield Place(endpoint, endpoint, make_way, lambda: None)
    finally:
        await make_way()


PLACES = [closed_port, broken_connections, refused_calls]


async def start_later(serve: Serve, place: Place, number: int, seconds: float) -> Serving:
    """Start a node after a while, fill it, and let clients reach it."""
    await asyncio.sleep(seconds)
    await place.prepare()
    node = await serve(cpu_tier(64), listen=place.listen)
    await node.store(*((number, step) for step in range(5)))
    await asyncio.sleep(seconds / 4)
    place.open()
    return node


async def knows(proxy: TieringProxy, view: View, node: Serving) -> None:
    """Check that a node's view is what the node lists."""
    await view.settle(node.client)
    name = (await node.client.get_node()).node_id
    held = await node.held()
    assert {key.block_hash for key in view.held(name)} == held
    assert {key.block_hash for key in proxy.index.blocks(name, "cpu0")} == held
    assert proxy.index.quality(name) is Quality.EXACT


@pytest.mark.parametrize("seed", range(4))
async def test_a_proxy_converges_in_every_order(serve: Serve, seed: int) -> None:
    """Refused, broken and turned away, it goes on asking until each node is there."""
    rng = random.Random(seed)
    kinds = rng.sample(PLACES, NODES)
    delays = [rng.uniform(0, LATEST_SECONDS) for _ in range(NODES)]
    async with AsyncExitStack() as stack:
        places = [await stack.enter_async_context(kind()) for kind in kinds]
        starting = [
            asyncio.create_task(start_later(serve, place, number, delays[number]))
            for number, place in enumerate(places)
        ]
        await asyncio.sleep(rng.uniform(0, LATEST_SECONDS / 2))
        clients = [await stack.enter_async_context(NodeClient(place.endpoint)) for place in places]
        proxy, view = await stack.enter_async_context(proxying(clients[0], clients[1:]))

        nodes = await asyncio.gather(*starting)
        for node in nodes:
            await node.store("later")
            await knows(proxy, view, node)
        await view.settle(clients[0])
        chain = blocks_of((1, 0), (2, 4), (0, 0), "nowhere")
        (found,) = await proxy.lookup(nodes[0].namespace, [chain])

    assert words(LookupResult, found.results) == ["HIT", "HIT", "HIT", "MISS"]
    assert found.sources == (1, 2, 0, None)
    assert hash_set(["later"]) <= await nodes[1].held()
    assert len(proxy.index.nodes()) == NODES


@pytest.mark.parametrize("kind", PLACES, ids=lambda kind: kind.__name__)
async def test_a_node_that_is_not_ready_is_not_taken_for_an_empty_one(
    serve: Serve, kind: Callable[[], Any]
) -> None:
    """Until it serves, the mirror claims nothing of it; then it has what the node has."""
    primary = await serve(cpu_tier(64))
    async with (
        kind() as place,
        NodeClient(place.endpoint) as client,
        proxying(primary.client, [client]) as (proxy, view),
    ):
        await view.until(lambda: [m for m in view.messages if place.endpoint in m.state.reason])
        before = proxy.index.nodes()

        node = await start_later(serve, place, 7, 1.0)
        await knows(proxy, view, node)

    assert before == []
    assert await node.held() == hash_set([(7, step) for step in range(5)])
