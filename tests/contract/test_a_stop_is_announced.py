"""A stop tells those who send work before it refuses any, for as long as `drain_delay` says."""

import asyncio
from typing import Any

import pytest

from kvtier.client import NodeClient, Reason, UnavailableError

from .conftest import Serve
from .health import health
from .proxies import ServeProxy, serve_proxy
from .support import cpu_tier, payloads, run

__all__ = ["serve_proxy"]

LONG = 60
TIERS = "kvtier.v1.TierService"


async def not_serving(endpoint: str) -> None:
    """Wait until a server says that it is not ready."""
    async with health(endpoint) as asked:
        watch = asked.watch(TIERS)
        async with asyncio.timeout(10):
            while await watch.next() != "NOT_SERVING":
                pass


@pytest.mark.parametrize("by_call", [False, True], ids=["stop", "drain"])
async def test_a_node_goes_on_serving_until_others_have_heard(serve: Serve, by_call: bool) -> None:
    """It is NOT_SERVING at once and takes stores still; a hurry ends the delay."""
    node = await serve(cpu_tier(4), drain_delay=LONG)
    leave: Any = node.client.drain if by_call else node.server.drain_and_stop
    async with asyncio.TaskGroup() as tasks:
        leaving = tasks.create_task(leave())
        await not_serving(node.endpoint)

        await node.client.store("cpu0", node.namespace, [run(1)], payloads(1))
        assert not leaving.done()
        node.server.hurry()
        async with asyncio.timeout(10):
            await leaving


async def test_a_delay_that_is_over_is_over(serve: Serve) -> None:
    """Then work is refused; a stop after a drain does not wait for it again."""
    node = await serve(cpu_tier(4), drain_delay=0.3)
    loop = asyncio.get_running_loop()
    start = loop.time()
    await node.client.drain()
    assert loop.time() - start >= 0.3

    with pytest.raises(UnavailableError) as error:
        await node.client.prepare_store("cpu0", node.namespace, [run(1)])
    node.server._draining._delay = LONG
    async with asyncio.timeout(10):
        await node.server.drain_and_stop()

    assert error.value.reason == Reason.DRAINING


async def test_a_proxy_goes_on_serving_until_others_have_heard(
    serve: Serve, serve_proxy: ServeProxy
) -> None:
    """It is NOT_SERVING at once and answers still; a hurry ends the delay."""
    node = await serve(cpu_tier(4))
    proxy = await serve_proxy(node.endpoint, drain_delay=LONG)
    stopping = asyncio.create_task(proxy.drain_and_stop())
    await not_serving(proxy.address)

    async with NodeClient(proxy.address) as client:
        await client.get_node()
    assert not stopping.done()
    proxy.hurry()
    async with asyncio.timeout(10):
        await stopping
