"""Processes behind and before followers are killed at any moment: no event is lost or made up."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest

from kvtier.client import KvtierError, NodeClient
from tests.contract.folding import Fold, listed
from tests.contract.proxies import following_proxy
from tests.contract.support import namespace, payloads, run
from tests.waiting import until

from .conftest import StartNode, StartProxy
from .processes import NodeProcess, reached, refused

NODES, TURNS = 2, 5


async def write(client: NodeClient, first: int) -> None:
    """Store blocks until it is cancelled or the node is gone."""
    fingerprint = await client.register_namespace(namespace())
    with suppress(KvtierError):
        for number in range(first, first + 100_000):
            await client.store("cpu0", fingerprint, [run(number)], payloads(number))


@asynccontextmanager
async def writing(*clients: NodeClient) -> AsyncIterator[None]:
    """Keep nodes busy."""
    tasks = [asyncio.create_task(write(each, 1_000_000 * n)) for n, each in enumerate(clients)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def names(*clients: NodeClient) -> list[str]:
    return [(await client.get_node()).node_id for client in clients]


async def start_all(
    stack: AsyncExitStack, start_node: StartNode
) -> tuple[list[NodeProcess], list[NodeClient]]:
    tier = {"name": "cpu0", "medium": "cpu", "capacity": 64 * 64, "slot_bytes": 64}
    nodes = [await start_node(tiers=[tier]) for _ in range(NODES)]
    clients = [await stack.enter_async_context(NodeClient(node.endpoint)) for node in nodes]
    return nodes, clients


@pytest.mark.slow
async def test_a_follower_of_a_killed_proxy_goes_on_at_another(
    start_node: StartNode, start_proxy: StartProxy
) -> None:
    """Again and again, while the nodes evict: each batch is told once, and nothing starts over."""
    folds: dict[str, Fold] = {}
    async with AsyncExitStack() as stack:
        nodes, clients = await start_all(stack, start_node)
        proxy = await start_proxy(*[node.endpoint for node in nodes])
        async with writing(*clients):
            for _ in range(TURNS):
                async with following_proxy(proxy.endpoint, folds=folds) as follower:
                    await follower.settle(*clients)
                    spare = await start_proxy(*[node.endpoint for node in nodes])
                    await follower.settle(*clients)
                    await proxy.kill()
                    await until(lambda: follower.error)
                proxy = spare
        async with following_proxy(proxy.endpoint, folds=folds) as follower:
            await follower.settle(*clients)

        for name, client in zip(await names(*clients), clients, strict=True):
            assert folds[name].view == await listed(client)
            assert folds[name].resets == ["NO_POSITION"]


@pytest.mark.slow
async def test_a_killed_secondary_is_told_down_and_the_primary_goes_on(
    start_node: StartNode, start_proxy: StartProxy
) -> None:
    """Nothing is removed for it; started again, it is told anew with what it then has."""
    async with AsyncExitStack() as stack:
        (near, far), clients = await start_all(stack, start_node)
        one, two = await names(*clients)
        proxy = await start_proxy(near.endpoint, far.endpoint)
        follower = await stack.enter_async_context(following_proxy(proxy.endpoint))
        async with writing(*clients):
            await follower.until(lambda: len(follower.of(two)) > 20)
            await far.kill()
            await follower.until(lambda: follower.state(two) == "DOWN")
            view, heard = dict(follower.folds[two].view), len(follower.of(one))
            await follower.until(lambda: len(follower.of(one)) > heard + 50)
            kept = follower.folds[two].view == view
        await start_node(far)
        await reached(clients[1])
        await follower.until(lambda: follower.state(two) == "LIVE")
        async with writing(clients[1]):
            await follower.until(lambda: follower.folds[two].view)
        await follower.settle(*clients)

        assert kept
        assert follower.state(one) == "LIVE"
        assert follower.folds[one].view == await listed(clients[0])
        assert follower.folds[two].view == await listed(clients[1])
        assert follower.folds[two].resets == ["NO_POSITION", "EPOCH_CHANGED"]


@pytest.mark.slow
async def test_a_secondary_that_stands_still_is_suspect_and_holds_nothing_up(
    start_node: StartNode, start_proxy: StartProxy
) -> None:
    """When it goes on, so does its stream, from where it was."""
    async with AsyncExitStack() as stack:
        (near, far), clients = await start_all(stack, start_node)
        one, two = await names(*clients)
        proxy = await start_proxy(near.endpoint, far.endpoint)
        follower = await stack.enter_async_context(following_proxy(proxy.endpoint))
        await follower.settle(*clients)
        far.process.send_signal(signal.SIGSTOP)
        try:
            async with writing(clients[0]):
                heard = len(follower.of(one))
                await follower.until(lambda: follower.state(two) in {"SUSPECT", "DOWN"})
                told = len(follower.of(one)) - heard
        finally:
            far.process.send_signal(signal.SIGCONT)
        await follower.until(lambda: follower.state(two) == "LIVE")
        await follower.settle(*clients)

        assert told > 50
        assert follower.folds[two].resets == ["NO_POSITION"]


@pytest.mark.slow
async def test_a_stop_signal_sends_followers_on_and_ends_well(
    start_node: StartNode, start_proxy: StartProxy
) -> None:
    """The followers get DRAINING, and the process exits with 0."""
    async with AsyncExitStack() as stack:
        nodes, clients = await start_all(stack, start_node)
        proxy = await start_proxy(*[node.endpoint for node in nodes])
        follower = await stack.enter_async_context(following_proxy(proxy.endpoint))
        await follower.settle(*clients)

        code = await proxy.terminate()
        await until(lambda: follower.error)

    assert code == 0
    assert getattr(follower.error, "reason", "") == "DRAINING"
    assert "Traceback" not in proxy.log


@pytest.mark.slow
async def test_a_second_signal_ends_a_proxy_at_once(
    start_node: StartNode, start_proxy: StartProxy
) -> None:
    """It exits with 0 all the same, and says nothing of a failure."""
    node = await start_node()
    proxy = await start_proxy(node.endpoint)
    async with following_proxy(proxy.endpoint) as follower:
        await follower.until(lambda: follower.folds)
        proxy.process.send_signal(signal.SIGTERM)
        proxy.process.send_signal(signal.SIGINT)
        async with asyncio.timeout(10):
            code = await proxy.process.wait()

    assert code == 0
    assert "Traceback" not in proxy.log


@pytest.mark.slow
async def test_an_address_that_is_taken_is_refused(start_node: StartNode, tmp_path: Path) -> None:
    """The exit code is 1, and the last line says what is wrong and what to do."""
    node = await start_node()
    config = {"node_id": "proxy", "primary": node.endpoint, "listen": node.endpoint}

    code, line = await refused(tmp_path, config, module="kvtier.proxy")

    assert code == 1
    assert line.startswith(f"error: cannot listen on {node.endpoint}: ")
