"""Random calls of many clients at once on nodes of several tiers, with copies that take time.

KVTIER_TEST_EFFORT=20 makes twenty times as many calls; KVTIER_TEST_SEED starts with that seed.
"""

import asyncio
import os
import random
from collections.abc import Callable, Sequence

import pytest

from kvtier.server.tiering import copier
from tests.contract.support import block_hash, payload
from tests.model.effort import examples
from tests.unit.server.support import LocalNode

from .auditor import Auditor
from .client import BLOCKS, Client
from .nodes import LASTING, SHAPES, SlowStore
from .shelves import ShakyShelf, check_shelf, shelf_of, weather

_SEED = int(os.environ.get("KVTIER_TEST_SEED", "1"))
_CLIENTS = 6


@pytest.mark.parametrize("seed", range(_SEED, _SEED + 3))
@pytest.mark.parametrize("shape", SHAPES)
async def test_nothing_is_lost_doubled_or_mixed_up(
    shape: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every batch each block that moves is somewhere, and no tier shows more than it holds.

    What a lease pins keeps its bytes; when all is quiet the events tell what the node lists, and no
    slot, lease or spare is held.
    """
    rng = random.Random(f"{shape} {seed}")
    monkeypatch.setattr(copier, "_INLINE_BYTES", -1 if seed % 3 else 1 << 20)
    local = LocalNode(*SHAPES[shape])
    for tier in local.node.tiers:
        tier.store = SlowStore(tier.arena, rng.randrange(1 << 30))
        tier.store.failing = seed % 2 == 0
    try:
        await _walk(local, rng)
    finally:
        local.close()


@pytest.mark.parametrize("seed", range(_SEED, _SEED + 3))
@pytest.mark.parametrize("shape", LASTING)
async def test_shelves_that_fail_and_stand_still_harm_no_block(shape: str, seed: int) -> None:
    """The same holds where shelves fail, fill up, stand still, and lose and spoil blocks.

    When all is quiet, what a tier shows is on its shelf byte for byte, and nothing else is.
    """
    rng = random.Random(f"{shape} {seed}")
    local = LocalNode(*LASTING[shape], new_shelf=lambda: ShakyShelf(rng.randrange(1 << 30)))
    lasting = [tier for tier in local.node.tiers if tier.keeping is not None]
    for place, store in enumerate(local.stores):
        store.reached = place > 0 or seed % 2 == 0
    for tier in local.node.tiers:
        if tier.keeping is None:
            tier.store = SlowStore(tier.arena, rng.randrange(1 << 30))
    weathers = [
        asyncio.create_task(weather(tier, random.Random(rng.random())))
        for tier in lasting
        if seed % 3
    ]

    try:
        await _walk(local, rng, weathers)
        for tier in lasting:
            await check_shelf(tier, {block_hash(i): payload(i) for i in range(BLOCKS)})
    finally:
        for tier in lasting:
            shelf_of(tier).gate.set()
        local.close()


async def _walk(
    local: LocalNode, rng: random.Random, beside: Sequence[asyncio.Task[None]] = ()
) -> None:
    """Let clients do what they like while other things go on beside them; check what comes of it.

    Args:
        local: The node.
        rng: What they do.
        beside: What else goes on; it is ended when the clients are done.
    """
    auditor = Auditor(local.node)
    clients = [Client(local, random.Random(rng.random())) for _ in range(_CLIENTS)]
    running = [asyncio.create_task(client.run(examples(60))) for client in clients]
    while not all(task.done() for task in running):
        await asyncio.wait(running, timeout=0.005)
        auditor.follow()
    await asyncio.gather(*running)
    for task in beside:
        task.cancel()
    if beside:
        await asyncio.wait(beside)
    jobs, tiers = local.node.tiering.jobs, local.node.tiers
    await _until(lambda: not jobs)
    for lease in local.node.leases.accounts.of_owner("walker"):
        local.clock.advance(400)
        assert lease.expires <= local.clock.monotonic()
        local.node.expire_leases()
    # Threads may still be at slots that were given up.
    await _until(lambda: not any(t.occupancy.quarantined + t.occupancy.draining for t in tiers))
    await auditor.check_quiet()


async def _until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not done():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.005)
