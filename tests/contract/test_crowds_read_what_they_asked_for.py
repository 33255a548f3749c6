"""Many clients load through promotions while blocks come and go: each gets the bytes it asked for.

KVTIER_TEST_EFFORT=20 goes on twenty times as long.
"""

import asyncio
import random
from time import monotonic

import pytest

from kvtier.client import ExhaustedError, NodeClient
from tests.model.effort import seconds

from .conftest import Connect, Serve
from .support import BLOCK_BYTES, Serving, blocks_of, payload, payloads, run
from .tiers_of_two import CPU, GPU, exclusive

CLIENTS, CHAINS, LENGTH = 64, 60, 5


class Crowd:
    """What the clients do, and what they saw.

    Attributes:
        loaded: Blocks that were read and had the right bytes.
        wrong: Blocks that had other bytes.
    """

    def __init__(self, node: Serving, until: float) -> None:
        self._node = node
        self._until = until
        self.loaded = 0
        self.wrong: list[int] = []

    async def come(self, client: NodeClient, seed: int) -> None:
        """Load and store chains at random."""
        rng = random.Random(seed)
        while monotonic() < self._until:
            first = rng.randrange(CHAINS) * LENGTH
            chain = list(range(first, first + rng.randint(1, LENGTH)))
            try:
                if rng.random() < 0.3:
                    await client.store(
                        rng.choice((GPU, CPU)),
                        self._node.namespace,
                        [run(*chain)],
                        payloads(*chain),
                    )
                else:
                    await self._load(client, chain)
            except ExhaustedError:
                await asyncio.sleep(rng.random() * 0.01)

    async def _load(self, client: NodeClient, chain: list[int]) -> None:
        wanted = [blocks_of(*chain)]
        answer = await client.prepare_load(
            GPU, self._node.namespace, wanted, promote=True, wait=True
        )
        report = await client.read_blocks(answer.lease, [BLOCK_BYTES] * len(chain))
        await client.complete_load(answer.lease)
        for block, data in zip(chain, report.payloads, strict=True):
            if data is not None and data != payload(block):
                self.wrong.append(block)
            self.loaded += data is not None


@pytest.mark.slow
@pytest.mark.timeout(seconds(120))
async def test_no_load_gets_the_bytes_of_another_block(serve: Serve, connect: Connect) -> None:
    """Sixty-four clients, tiers that are far too small, and not one mismatch."""
    node = await serve(*exclusive(40, 120, demote_wait=0.05))
    clients = [await connect(node, timeout=30.0) for _ in range(CLIENTS)]
    crowd = Crowd(node, monotonic() + seconds(12))

    await asyncio.gather(*(crowd.come(client, seed) for seed, client in enumerate(clients)))

    counters = (await node.tier(GPU)).counters
    assert crowd.wrong == []
    assert crowd.loaded > 100
    assert counters.promoted > 100
    assert counters.demoted > 100
