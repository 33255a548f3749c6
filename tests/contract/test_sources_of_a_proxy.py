"""How the nodes behind a proxy are, and who they are, is told; none holds another one up."""

import asyncio

from kvtier.client import NodeClient
from kvtier.v1.event_service_pb2 import WatchEventsResponse
from tests.waiting import until

from .conftest import Connect, Serve
from .folding import Fold, listed
from .proxies import ProxyFollower, ServeProxy, following_proxy, serve_proxy
from .support import Serving, cpu_tier
from .viewing import proxying, watching

__all__ = ["serve_proxy"]


def names(*nodes: Serving) -> list[str]:
    return [node.node.node_id for node in nodes]


def removals(messages: list[WatchEventsResponse]) -> int:
    batches = [batch for message in messages for batch in message.batches.batches]
    return sum(len(batch.removed) + len(batch.cleared) for batch in batches)


def beats(follower: ProxyFollower, node_id: str) -> int:
    return sum(message.HasField("progress") for message in follower.of(node_id))


async def test_a_node_that_goes_is_told_down_and_holds_up_nothing(
    serve: Serve, serve_proxy: ServeProxy
) -> None:
    """No removal is made up; the others' events come, also to who joins meanwhile or comes back."""
    near, far = await serve(cpu_tier(8)), await serve(cpu_tier(8))
    proxy = await serve_proxy(near.endpoint, far.endpoint)
    one, two = names(near, far)
    folds: dict[str, Fold] = {}
    async with following_proxy(proxy.address, folds=folds) as stays:
        await far.store(1)
        await stays.settle(far.client)
        kept = dict(folds[two].view)
        await far.server.drain_and_stop()
        await stays.until(lambda: stays.state(two) == "DOWN")
        await near.store(2)
        await stays.settle(near.client)
        quiet = beats(stays, two)

        async with following_proxy(proxy.address) as late:
            await late.settle(near.client)
            await late.until(lambda: late.state(two) == "DOWN")
        back: dict[str, Fold] = {two: Fold()}
        back[two].__dict__.update(folds[two].__dict__)
        async with following_proxy(proxy.address, folds=back) as resumed:
            await resumed.until(lambda: resumed.state(two) == "DOWN")
            await resumed.settle(near.client)
        seen = beats(stays, one)
        await stays.until(lambda: beats(stays, one) > seen + 2)

        assert beats(stays, two) == quiet

    assert removals(stays.messages) == 0
    assert folds[two].view == back[two].view == kept
    assert not late.folds[two].view
    assert folds[one].view == late.folds[one].view == await listed(near.client)


async def test_a_proxy_lists_a_node_once_it_hears_of_it(
    serve: Serve, serve_proxy: ServeProxy
) -> None:
    """Before, followers hear of those that are there, and that the proxy lives."""
    near, far = await serve(cpu_tier(8)), await serve(cpu_tier(8))
    address, (one, two) = far.endpoint, names(near, far)
    await far.server.drain_and_stop()
    proxy = await serve_proxy(near.endpoint, address, wait=False)
    async with following_proxy(proxy.address) as follower:
        await follower.settle(near.client)
        before = follower.listed
        again = await serve(cpu_tier(8), node_id=two, listen=address)
        await again.store(1)
        await follower.settle(again.client)

    assert before == [one]
    assert follower.listed == [one, two]


async def test_followers_of_a_proxy_that_hears_of_nobody_are_kept(
    serve: Serve, serve_proxy: ServeProxy
) -> None:
    """They are told again and again that it lives, and their positions are not forgotten."""
    node = await serve(cpu_tier(8))
    (name,) = names(node)
    folds: dict[str, Fold] = {}
    first = await serve_proxy(node.endpoint)
    async with following_proxy(first.address, folds=folds) as follower:
        await follower.settle(node.client)
    address = node.endpoint
    await node.server.drain_and_stop()
    proxy = await serve_proxy(address, wait=False)

    async with following_proxy(proxy.address, folds=folds) as follower:
        await follower.until(lambda: len(follower.messages) > 5)

    assert follower.listed == [name]
    assert all(message.HasField("sources") for message in follower.messages)


async def test_secondaries_join_and_leave_while_followers_listen(
    serve: Serve, serve_proxy: ServeProxy
) -> None:
    """One that joins is listed before it speaks; one that left is REMOVED, and not listed."""
    near, far = await serve(cpu_tier(8)), await serve(cpu_tier(8))
    one, two = names(near, far)
    await far.store(1)
    proxy = await serve_proxy(near.endpoint)
    members = proxy.proxy.members
    async with (
        following_proxy(proxy.address) as follower,
        NodeClient(far.endpoint) as client,
    ):
        await follower.settle(near.client)
        assert follower.listed == [one]

        member = await members.add(client)
        await follower.settle(far.client)
        assert follower.listed == [one, two]
        assert follower.folds[two].view == await listed(far.client)

        await members.remove(member)
        await follower.until(lambda: follower.state(two) == "REMOVED")
        await follower.until(lambda: follower.listed == [one])
        follower.folds.pop(two)
        await members.add(client)
        await follower.settle(far.client)

    assert follower.listed == [one, two]
    assert follower.folds[two].view == await listed(far.client)


async def test_secondaries_wait_for_a_primary_that_is_required(
    serve: Serve, serve_proxy: ServeProxy
) -> None:
    """Nothing of them but their states is told while the primary is away; then all of it is."""
    near, far = await serve(cpu_tier(8)), await serve(cpu_tier(8))
    address, (one, two) = near.endpoint, names(near, far)
    proxy = await serve_proxy(near.endpoint, far.endpoint, require_primary=True)
    async with following_proxy(proxy.address) as follower:
        await follower.settle(near.client, far.client)
        await near.server.drain_and_stop()
        await follower.until(lambda: follower.state(one) == "DOWN")
        heard = len(follower.of(two))
        await far.store(1, 2)
        lists = sum(message.HasField("sources") for message in follower.messages)
        await follower.until(
            lambda: sum(m.HasField("sources") for m in follower.messages) > lists + 5
        )
        waited = len(follower.of(two)) - heard
        again = await serve(cpu_tier(8), node_id=one, listen=address)
        await follower.settle(again.client, far.client)

    assert waited == 0
    assert follower.folds[two].view == await listed(far.client)


async def test_a_watch_and_an_index_follow_a_proxy_as_they_do_nodes(
    serve: Serve, serve_proxy: ServeProxy
) -> None:
    """A program of the client library sees the same through a tree of proxies, and no flaw."""
    nodes = [await serve(cpu_tier(8)) for _ in range(3)]
    leaf = await serve_proxy(*[node.endpoint for node in nodes[1:]])
    root = await serve_proxy(nodes[0].endpoint, leaf.address)
    async with (
        NodeClient(root.address) as client,
        watching(client) as view,
        proxying(nodes[0].client, [client]) as (_, merged),
    ):
        for step in range(60):
            await nodes[step % 3].store(step, step + 1)
        for node in nodes:
            await view.settle(node.client)
            await merged.settle(node.client)

    for node in nodes:
        expected = set(await listed(node.client))
        assert view.held(node.node.node_id) == expected
        assert merged.held(node.node.node_id) == expected
    assert view.index.bad_events == merged.index.bad_events == 0


async def test_an_idle_proxy_beats_for_each_node(serve: Serve, serve_proxy: ServeProxy) -> None:
    """While a node is in touch, each heartbeat tells how far its log is."""
    nodes = [await serve(cpu_tier(8)) for _ in range(2)]
    proxy = await serve_proxy(*[node.endpoint for node in nodes])
    async with following_proxy(proxy.address) as follower:
        await follower.settle(*[node.client for node in nodes])
        for name in names(*nodes):
            await follower.until(lambda: beats(follower, name) >= 3)  # noqa: B023 - awaited at once


async def test_a_proxy_that_drains_sends_its_followers_on(
    serve: Serve, serve_proxy: ServeProxy, connect: Connect
) -> None:
    """The stream ends with UNAVAILABLE and DRAINING; the next proxy goes on from there."""
    node = await serve(cpu_tier(8))
    one, two = await serve_proxy(node.endpoint), await serve_proxy(node.endpoint)
    folds: dict[str, Fold] = {}
    async with following_proxy(one.address, folds=folds) as follower:
        await node.store(1)
        await follower.settle(node.client)
        await one.drain_and_stop()
        await until(lambda: follower.error)
    await node.store(2)
    async with following_proxy(two.address, folds=folds) as again:
        await again.settle(node.client)

    (fold,) = folds.values()
    assert getattr(follower.error, "reason", "") == "DRAINING"
    assert fold.view == await listed(node.client)
    assert fold.resets == ["NO_POSITION"]


async def test_followers_are_limited(serve: Serve, serve_proxy: ServeProxy) -> None:
    """One too many is refused and told why; one that leaves makes room."""
    node = await serve(cpu_tier(8))
    proxy = await serve_proxy(node.endpoint, limits={"followers": 1})
    async with following_proxy(proxy.address) as first:
        await first.settle(node.client)
        async with following_proxy(proxy.address) as second:
            await until(lambda: second.error)
    async with asyncio.timeout(10), following_proxy(proxy.address) as third:
        await third.settle(node.client)

    assert getattr(second.error, "reason", "") == "FOLLOWER_LIMIT"
