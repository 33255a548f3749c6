"""Positions are the nodes' own: who has one goes on from it anywhere, without loss."""

from typing import Any

import pytest

from kvtier.client import NodeClient

from .conftest import Serve
from .folding import Fold, listed
from .following import following
from .proxies import ServeProxy, following_proxy, serve_proxy
from .support import cpu_tier
from .viewing import watching

__all__ = ["serve_proxy"]

# Which proxies a follower goes to, one after the other.
WAYS: dict[str, list[str]] = {
    "the same": ["one", "one"],
    "another": ["one", "two"],
    "to and fro": ["one", "two", "one", "two"],
    "up the tree": ["one", "tree"],
    "down the tree": ["tree", "two", "tree"],
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
async def test_a_follower_moves_between_proxies(
    serve: Serve, serve_proxy: ServeProxy, way: list[str]
) -> None:
    """What happened meanwhile is told, nothing comes twice, and nothing starts over."""
    nodes = [await serve(cpu_tier(8)) for _ in range(2)]
    addresses = [node.endpoint for node in nodes]
    proxies = {"one": await serve_proxy(*addresses), "two": await serve_proxy(*addresses)}
    proxies["tree"] = await serve_proxy(proxies["one"].address)
    folds: dict[str, Fold] = {}

    for turn, name in enumerate(way):
        async with following_proxy(proxies[name].address, folds=folds) as follower:
            for node in nodes:
                await node.store(turn, 100 + turn)
            await follower.settle(*[node.client for node in nodes])
        for node in nodes:
            await node.store(200 + turn, 300 + turn)
    async with following_proxy(proxies[way[0]].address, folds=folds) as follower:
        await follower.settle(*[node.client for node in nodes])

    for node in nodes:
        fold = folds[node.node.node_id]
        assert fold.view == await listed(node.client)
        assert fold.resets == ["NO_POSITION"]


@pytest.mark.parametrize("request_", [{}, {"tiers": ["cpu0"]}], ids=["all", "filtered"])
async def test_a_proxy_goes_on_from_the_position_of_a_node(
    serve: Serve, serve_proxy: ServeProxy, request_: dict[str, Any]
) -> None:
    """Who followed the node itself is told at a proxy what came after, and the other way round."""
    node = await serve(cpu_tier(8), cpu_tier(8, name="cpu1"))
    name = node.node.node_id
    proxy = await serve_proxy(node.endpoint)
    fold = Fold(filtered=bool(request_))
    async with following(node.endpoint, fold=fold, **request_) as direct:
        for step in range(10):
            await node.store(step)
            await node.store(step, tier="cpu1")
        await direct.settle(node.client)
    await node.store(50, tier="cpu1")

    async with following_proxy(proxy.address, folds={name: fold}, **request_) as follower:
        await node.store(51, 52)
        await follower.settle(node.client)
    await node.store(53)
    async with following(node.endpoint, fold=fold, **request_) as direct:
        await direct.settle(node.client)

    assert fold.view == await listed(node.client, *request_.get("tiers", ()))
    assert fold.resets == ["NO_POSITION"]


@pytest.mark.parametrize("gone", [3, 40], ids=["held", "let go"])
async def test_what_a_proxy_does_not_hold_the_node_does(
    serve: Serve, serve_proxy: ServeProxy, gone: int
) -> None:
    """A position that is too old for the proxy is gone on from, while the node's log has it."""
    node = await serve(cpu_tier(8))
    proxy = await serve_proxy(node.endpoint, events={"max_batches": 8, "linger": 0})
    folds: dict[str, Fold] = {}
    async with following_proxy(proxy.address, folds=folds) as follower:
        await follower.settle(node.client)
    for step in range(gone):
        await node.store(step)

    async with following_proxy(proxy.address, folds=folds) as follower:
        await node.store(100)
        await follower.settle(node.client)

    fold = folds[node.node.node_id]
    assert fold.view == await listed(node.client)
    assert fold.resets == ["NO_POSITION"]


async def test_what_neither_holds_is_told_anew(serve: Serve, serve_proxy: ServeProxy) -> None:
    """A position that the node's log let go is answered with the node's own reset."""
    node = await serve(cpu_tier(8), events={"max_batches": 8, "linger": 0})
    proxy = await serve_proxy(node.endpoint, events={"max_batches": 8, "linger": 0})
    folds: dict[str, Fold] = {}
    async with following_proxy(proxy.address, folds=folds) as follower:
        await follower.settle(node.client)
    for step in range(40):
        await node.store(step)

    async with following_proxy(proxy.address, folds=folds) as follower:
        await follower.settle(node.client)

    fold = folds[node.node.node_id]
    assert fold.view == await listed(node.client)
    assert fold.resets == ["NO_POSITION", "COMPACTED"]


async def test_a_node_that_starts_again_is_told_anew(serve: Serve, serve_proxy: ServeProxy) -> None:
    """Followers that stay and followers that come back later see what the new life holds."""
    node = await serve(cpu_tier(8))
    name, address = node.node.node_id, node.endpoint
    proxy = await serve_proxy(address)
    away: dict[str, Fold] = {}
    async with following_proxy(proxy.address, folds=away) as follower:
        await node.store(1)
        await follower.settle(node.client)

    async with following_proxy(proxy.address) as stays:
        await stays.settle(node.client)
        await node.server.drain_and_stop()
        await stays.until(lambda: stays.state(name) == "DOWN")
        again = await serve(cpu_tier(8), node_id=name, listen=address)
        await again.store(2)
        await stays.settle(again.client)
        async with following_proxy(proxy.address, folds=away) as back:
            await back.settle(again.client)

    expected = await listed(again.client)
    assert stays.folds[name].view == away[name].view == expected
    assert stays.folds[name].resets == away[name].resets == ["NO_POSITION", "EPOCH_CHANGED"]
    assert stays.state(name) == "LIVE"


async def test_a_watch_goes_on_at_a_proxy_that_starts_again(
    serve: Serve, serve_proxy: ServeProxy
) -> None:
    """Also at once, when the new proxy has not heard of any node yet: nothing starts over."""
    nodes = [await serve(cpu_tier(8)) for _ in range(2)]
    addresses = [node.endpoint for node in nodes]
    proxy = await serve_proxy(*addresses)
    async with NodeClient(proxy.address) as client, watching(client) as view:
        for turn in range(5):
            for node in nodes:
                await node.store(turn, 100 + turn)
                await view.settle(node.client)
            await proxy.drain_and_stop()
            for node in nodes:
                await node.store(200 + turn)
            proxy = await serve_proxy(*addresses, listen=proxy.address, wait=False)
        for node in nodes:
            await view.settle(node.client)

    for node in nodes:
        name = node.node.node_id
        resets = [m for m in view.messages if m.node_id == name and m.HasField("reset")]
        assert view.held(name) == set(await listed(node.client))
        assert len(resets) == 1
    assert view.index.bad_events == 0
