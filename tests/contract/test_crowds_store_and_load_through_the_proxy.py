"""Whatever many callers do at one time, what is loaded is right and nothing is left behind."""

import asyncio
import random
from contextlib import suppress

import pytest

from kvtier.client import ExhaustedError
from kvtier.client.proxy.settings import CascadeSettings, PromotionSettings

from .conftest import Serve
from .managed import Managed, managing
from .support import blocks_of, cpu_tier, hash_set, payload

BLOCKS = range(24)
CASCADES = CascadeSettings(catch_up=True, queue_blocks=8, pause=0.01, longest_pause=0.05)
PROMOTIONS = PromotionSettings(blocks=6, deadline=2.0, pause=0.01, longest_pause=0.05)


class Caller:
    """Does one thing after the other at random, and sometimes leaves in the middle.

    Attributes:
        loaded: How many blocks came.
    """

    def __init__(self, managed: Managed, seed: str) -> None:
        self.loaded = 0
        self._managed = managed
        self._random = random.Random(seed)

    async def work(self, steps: int) -> None:
        for _ in range(steps):
            act = self._random.choice([self._store, self._load, self._load, self._peek, self._drop])
            step = asyncio.create_task(act(self._chain()))
            if self._random.random() < 0.2:
                await asyncio.sleep(self._random.random() / 100)
                step.cancel()
            for failure in await asyncio.gather(step, return_exceptions=True):
                if isinstance(failure, Exception):
                    raise failure

    def _chain(self) -> list[int]:
        """A prefix of one of the chains: a block has the same parents in all of them."""
        first = self._random.randrange(0, len(BLOCKS), 8)
        return list(BLOCKS[first : first + self._random.randint(1, 8)])

    async def _store(self, chain: list[int]) -> None:
        # Too much of the primary may be pinned just now.
        with suppress(ExhaustedError):
            await self._managed.store(*chain, wait=self._random.random() < 0.3)

    async def _load(self, chain: list[int]) -> None:
        for block, found in zip(chain, await self._managed.load(*chain), strict=True):
            assert found in {None, payload(block)}
            self.loaded += found is not None

    async def _peek(self, chain: list[int]) -> None:
        await self._managed.prepare(*chain, wait=False)

    async def _drop(self, chain: list[int]) -> None:
        node = self._random.choice(self._managed.nodes)
        block = self._random.choice(chain)
        await node.client.delete(node.namespace, [blocks_of(block)])


@pytest.mark.parametrize("seed", range(3))
async def test_a_crowd_leaves_nothing_behind(serve: Serve, seed: int) -> None:
    """Every block that came is right; at the end views are true and nothing is held."""
    nodes = [await serve(cpu_tier(size)) for size in (12, 16, 6)]
    async with managing(nodes, cascades=CASCADES, promotions=PROMOTIONS) as managed:
        callers = [Caller(managed, f"{seed} {number}") for number in range(8)]
        await asyncio.gather(*(caller.work(25) for caller in callers))

        await managed.nothing_is_left()
        await managed.settle()
        for node in nodes:
            known = managed.index.blocks(node.node.node_id, "cpu0")
            assert {key.block_hash for key in known} == await node.held()
        assert sum(caller.loaded for caller in callers) > 0
        assert await nodes[0].held() <= hash_set(BLOCKS)
