"""What a proxy held for a follower is gone with the follower."""

from typing import TYPE_CHECKING

from kvtier.proxy.lifecycle import ProxyServer
from tests.waiting import until

from .conftest import Serve
from .proxies import ServeProxy, following_proxy, serve_proxy
from .support import Serving, cpu_tier
from .test_calls_leave_no_garbage import BLOCKS, garbage, large

if TYPE_CHECKING:
    from .folding import Fold

__all__ = ["garbage", "serve_proxy"]


async def come_and_go(node: Serving, proxy: ProxyServer) -> None:
    """Follow from a snapshot, live, and from a position; each message is large."""
    folds: dict[str, Fold] = {}
    for _ in range(2):
        async with following_proxy(proxy.address, folds=folds) as follower:
            await follower.settle(node.client)
            await node.client.clear("cpu0")
            await node.store(*range(BLOCKS))
            await follower.settle(node.client)
    await until(lambda: not proxy.followers)


async def test_messages_are_freed_with_their_follower(
    serve: Serve, serve_proxy: ServeProxy, garbage: list[object]
) -> None:
    """No circle of the proxy's own holds any; gRPC's client, which reads them here, has some."""
    node = await serve(cpu_tier(2 * BLOCKS))
    proxy = await serve_proxy(node.endpoint)
    await come_and_go(node, proxy)
    large(garbage)
    garbage.clear()

    for _ in range(3):
        await come_and_go(node, proxy)

    ours = ("Delivery", "kvtier/server", "kvtier/proxy")
    assert [each for each in large(garbage) if any(name in each for name in ours)] == []
