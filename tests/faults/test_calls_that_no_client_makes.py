"""Whoever can connect can send anything; a server goes on, and its log stays short and dark."""

import asyncio
import json
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import grpc
import pytest

from kvtier.client import NodeClient
from kvtier.server.health import vitals
from kvtier.server.health.promptness import Promptness
from tests.contract.conftest import Serve
from tests.contract.health import health
from tests.contract.proxies import ServeProxy, serve_proxy
from tests.contract.secured import SOON, token_auth
from tests.contract.support import blocks_of, payloads, run
from tests.logged import logged

from .raw_http2 import call, silent

__all__ = ["serve_proxy"]

CHECK = b"/grpc.health.v1.Health/Check"
GET_NODE = b"/kvtier.v1.TierService/GetNode"
NO_TEXT = b"/kvtier.v1.TierService/\xff"


async def test_a_method_whose_name_is_no_text_breaks_nothing_that_lasts(serve: Serve) -> None:
    """The node is at its address again at once, with its blocks, leases and health."""
    node = await serve()
    await node.client.store("cpu0", node.namespace, [run(1)], payloads(1))

    for _ in range(3):
        await call(node.endpoint, NO_TEXT)
        await serves_again(node.endpoint)

    async with NodeClient(node.endpoint) as client:
        (loaded,) = (await client.load("cpu0", node.namespace, [blocks_of(1)])).payloads
    assert [loaded] == payloads(1)
    assert node.server.serving.vitals.board["liveness"] == node.server.serving.vitals.board[""]


async def test_a_proxy_outlives_it_too(serve: Serve, serve_proxy: ServeProxy) -> None:
    """What serves is one for both."""
    node = await serve()
    proxy = await serve_proxy(node.endpoint)

    await call(proxy.address, NO_TEXT)

    await serves_again(proxy.address)


async def test_metadata_that_is_no_text_is_not_logged(serve: Serve, tmp_path: Path) -> None:
    """Not the token in it, nor a line for each call, whoever sends it."""
    node = await serve(register=False, auth=token_auth(tmp_path, "good"))
    with logged() as written:
        for _ in range(50):
            await call(node.endpoint, GET_NODE, (b"authorization", b"Bearer secret\xff"))

    lines = [json.loads(line) for line in written().splitlines()]
    assert "secret" not in written()
    assert "no text" in written()
    assert len(lines) < 50


@pytest.mark.parametrize("second", [False, True])
async def test_health_is_told_beside_calls_that_send_no_request(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, second: bool
) -> None:
    """At both addresses; at the node's own they are ended soon."""
    monkeypatch.setattr(vitals, "Promptness", partial(Promptness, 0.3))
    node = await serve(health_listen="127.0.0.1:0")
    port = node.server.serving.vitals.port
    assert port is not None
    endpoint = port.address if second else node.endpoint
    async with AsyncExitStack() as stack:
        idle = [await stack.enter_async_context(silent(endpoint, CHECK)) for _ in range(8)]
        async with health(endpoint) as asked:
            assert await asked.check("liveness") == "SERVING"

        if not second:
            for reader in idle:
                async with asyncio.timeout(SOON):
                    assert b"no request came" in await reader.readuntil(b"one message")


async def serves_again(endpoint: str) -> None:
    """Wait until a server answers; it was broken when this is called."""
    async with grpc.aio.insecure_channel(endpoint) as channel, asyncio.timeout(SOON):
        await channel.channel_ready()
    async with NodeClient(endpoint) as client:
        await client.list_tiers()
