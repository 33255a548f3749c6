"""A follower of a proxy knows of every node what the node lists, whenever it joins."""

import random

import pytest

from .conftest import Serve
from .folding import Fold, listed
from .proxies import ServeProxy, following_proxy, serve_proxy
from .support import Serving, cpu_tier, gpu_tier

__all__ = ["serve_proxy"]

TIERS = [gpu_tier(8), cpu_tier(16)]


async def work(nodes: list[Serving], dice: random.Random, steps: int) -> None:
    """Store, evict and clear at random."""
    for _ in range(steps):
        node, tier = dice.choice(nodes), dice.choice(["gpu0", "cpu0"])
        if dice.random() < 0.05:
            await node.client.clear(tier, namespace=dice.choice([b"", node.namespace]))
        else:
            first = dice.randrange(100)
            await node.store(*range(first, first + dice.randrange(1, 4)), tier=tier)


@pytest.mark.parametrize("seed", range(4))
async def test_views_equal_listings_whenever_a_follower_joins(
    serve: Serve, serve_proxy: ServeProxy, seed: int
) -> None:
    """Followers that join at any time, and again from where they were, see each node exactly."""
    dice = random.Random(seed)
    nodes = [await serve(*TIERS) for _ in range(3)]
    proxy = await serve_proxy(*[node.endpoint for node in nodes])
    clients = [node.client for node in nodes]
    folds: dict[str, Fold] = {}
    async with following_proxy(proxy.address) as whole:
        for _ in range(6):
            await work(nodes, dice, 15)
            async with (
                following_proxy(proxy.address) as late,
                following_proxy(proxy.address, folds=folds) as again,
            ):
                await work(nodes, dice, 15)
                await late.settle(*clients)
                await again.settle(*clients)
        await whole.settle(*clients)

    for node in nodes:
        listing = await listed(node.client)
        name = node.node.node_id
        assert whole.folds[name].view == listing
        assert late.folds[name].view == listing
        assert folds[name].view == listing
        assert folds[name].resets == ["NO_POSITION"]
