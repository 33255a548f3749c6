"""Random calls of many clients at once on nodes of several tiers, with copies that take time.

KVTIER_TEST_EFFORT=20 makes twenty times as many calls; KVTIER_TEST_SEED starts with that seed.
"""

import asyncio
import os
import random

import pytest

from kvtier.server.tiering import copier
from tests.model.effort import examples
from tests.unit.server.support import LocalNode

from .auditor import Auditor
from .client import Client
from .nodes import SHAPES, SlowStore

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
        tier.store = SlowStore(tier.store, rng.randrange(1 << 30))
        tier.store.failing = seed % 2 == 0
    auditor = Auditor(local.node)
    clients = [Client(local, random.Random(rng.random())) for _ in range(_CLIENTS)]
    running = [asyncio.create_task(client.run(examples(60))) for client in clients]

    try:
        while not all(task.done() for task in running):
            await asyncio.wait(running, timeout=0.005)
            auditor.follow()
        await asyncio.gather(*running)
        await asyncio.wait_for(_quiet(local), 20)
        for lease in local.node.leases.accounts.of_owner("walker"):
            local.clock.advance(400)
            assert lease.expires <= local.clock.monotonic()
            local.node.expire_leases()
        await auditor.check_quiet()
    finally:
        local.close()


async def _quiet(local: LocalNode) -> None:
    """Wait until no copy is under way."""
    while local.node.tiering.jobs:  # noqa: ASYNC110 - nothing tells of the last job
        await asyncio.sleep(0.005)
