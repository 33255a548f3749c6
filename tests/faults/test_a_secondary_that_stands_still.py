"""A secondary that stands still or dies costs neither a store nor a load more than its deadline."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kvtier.client import NodeClient
from kvtier.client.proxy.cascades.cascade import Skip
from kvtier.client.proxy.settings import CascadeSettings, PromotionSettings
from tests.contract.conftest import Serve
from tests.contract.managed import Managed, managing
from tests.contract.support import Serving, cpu_tier, hash_set, namespace, payloads
from tests.waiting import until

from .relay import Relay

SETTINGS = {"peer_timeout": 0.5, "peer_pause": 0.2}
CASCADES = CascadeSettings(catch_up=True, pause=0.1, longest_pause=0.4, stall=0.5)
PROMOTIONS = PromotionSettings(pause=0.1, longest_pause=0.4, stall=0.1)
# What waits for nobody takes less than this, in seconds, on a busy machine too.
AT_ONCE = 2.0


@asynccontextmanager
async def relayed(serve: Serve) -> AsyncIterator[tuple[Managed, Relay]]:
    """Three nodes, of which the last is reached through a relay by everybody."""
    nodes: list[Serving] = [await serve(cpu_tier(32), **SETTINGS) for _ in range(3)]
    async with Relay(nodes[2].endpoint) as relay, NodeClient(relay.endpoint, timeout=2.0) as far:
        await far.register_namespace(namespace())
        clients = [nodes[0].client, nodes[1].client, far]
        async with managing(
            nodes, clients=clients, cascades=CASCADES, promotions=PROMOTIONS
        ) as managed:
            yield managed, relay


@pytest.mark.slow
async def test_a_load_ends_at_its_deadline(serve: Serve) -> None:
    """What the others have comes, the rest is told to ask again, and comes after the heal."""
    async with relayed(serve) as (managed, relay):
        near, far = managed.nodes[1], managed.nodes[2]
        await far.store("far")
        await near.store("near")
        await managed.settle()
        assert await managed.prepare("far") == ["HIT"]
        await managed.primary.client.clear("cpu0")
        await managed.settle()
        relay.stall()
        loop = asyncio.get_running_loop()
        began = loop.time()

        hung = await managed.prepare("far", deadline=0.4)
        took = loop.time() - began
        other = await managed.load("near")
        relay.reset()
        async with asyncio.timeout(20):
            while await managed.load("far") != payloads("far"):  # noqa: ASYNC110 - nothing announces it
                await asyncio.sleep(0.05)

        assert hung == ["RETRY"]
        assert took < 0.4 + AT_ONCE
        assert other == payloads("near")
        await managed.nothing_is_left()


@pytest.mark.slow
async def test_a_cascade_is_given_up_and_caught_up(serve: Serve) -> None:
    """The other secondary has each block at once, no pin stays, and nothing is missing at last."""
    async with relayed(serve) as (managed, relay):
        near, far = managed.nodes[1], managed.nodes[2]
        await managed.store("first", wait=True)
        relay.stall()
        loop = asyncio.get_running_loop()
        began = loop.time()

        stored = [await managed.store(block) for block in range(4)]
        took = loop.time() - began
        await until(lambda: managed.managing.cascades.counts()[near.endpoint].sent == 5)
        outcomes = [(await each.cascade.wait())[1] for each in stored]
        await until(lambda: not len(managed.nodes[0].node.leases))
        relay.reset()
        await until(lambda: managed.managing.cascades.counts()[relay.endpoint].sent == 5, 20)

        assert took < AT_ONCE
        assert all(each.error is not None or each.skipped for each in outcomes)
        assert await far.held() == hash_set(["first", *range(4)])
        await managed.nothing_is_left()


@pytest.mark.slow
async def test_a_dead_secondary_is_skipped(serve: Serve) -> None:
    """Stores and loads go on as if it were not there; what it missed comes when it is back."""
    async with relayed(serve) as (managed, relay):
        target, relay.target = relay.target, ""
        relay.reset()
        await until(lambda: managed.secondaries[1].down)

        stored = await managed.store(1, wait=True)
        loaded = await managed.load(1)
        missing = await managed.prepare("nowhere")
        relay.target = target
        await until(lambda: managed.managing.cascades.counts()[relay.endpoint].sent == 1, 20)

        assert (await stored.cascade.wait())[1].skipped is Skip.DOWN
        assert loaded == payloads(1)
        assert missing == ["MISS"]
        assert await managed.nodes[2].held() == hash_set([1])
        await managed.nothing_is_left()
