"""Shelves that are slow, fail and stand still at random, and what must lie on them at the end."""

import asyncio
import random
import time

import numpy as np

from kvtier.server.lasting.moving import Outcome
from kvtier.server.lasting.shelf import ShelfError
from kvtier.server.lasting.store import LastingStore
from kvtier.server.tiers.table import FREE, READY
from kvtier.server.tiers.tier import Tier
from tests.contract.support import BLOCK_BYTES
from tests.lasting.memory_shelf import MemoryShelf


class ShakyShelf(MemoryShelf):
    """A shelf whose operations take a moment, now and then, and sometimes fail.

    Args:
        seed: What that depends on.

    Attributes:
        failing: Whether some operations fail.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.failing = False
        self._random = random.Random(seed)

    def _pass(self, name: str | None = None) -> None:
        if self._random.random() < 0.5:
            time.sleep(self._random.random() * 0.003)
        super()._pass(name)
        if self.failing and self._random.random() < 0.1:
            raise ShelfError("input/output error")


def shelf_of(tier: Tier) -> ShakyShelf:
    """The shelf of a tier."""
    assert tier.keeping is not None
    shelf = tier.keeping.store.shelf
    assert isinstance(shelf, ShakyShelf)
    return shelf


async def weather(tier: Tier, rng: random.Random) -> None:
    """Break and mend a tier's shelf until cancelled; leave it mended."""
    assert tier.keeping is not None
    store, shelf = tier.keeping.store, shelf_of(tier)
    try:
        while True:
            await asyncio.sleep(rng.random() * 0.02)
            trouble = rng.choice(["fails", "full", "stalls", "stalls", "loses", "spoils"])
            shelf.failing = trouble == "fails"
            shelf.trouble = "no space left on device" if trouble == "full" else ""
            if trouble == "stalls":
                shelf.gate.clear()
            elif trouble in {"loses", "spoils"}:
                _harm(shelf, rng, spoil=trouble == "spoils")
            await asyncio.sleep(rng.random() * (0.25 if trouble == "stalls" else 0.05))
            mend(store)
    finally:
        mend(store)


def mend(store: LastingStore) -> None:
    """Let all be well, as the tier finds out by itself after a while."""
    shelf = store.shelf
    assert isinstance(shelf, ShakyShelf)
    shelf.failing, shelf.trouble = False, ""
    shelf.gate.set()
    store.health.heal()


def _harm(shelf: MemoryShelf, rng: random.Random, *, spoil: bool) -> None:
    names = list(shelf.blocks)
    if not names:
        return
    name = rng.choice(names)
    block = shelf.blocks.pop(name, b"")
    if spoil and block:
        place = rng.randrange(len(block))
        changed = bytes([block[place] ^ 1])
        shelf.blocks[name] = block[:place] + changed + block[place + 1 :]


async def check_shelf(tier: Tier, payloads: dict[bytes, bytes]) -> None:
    """Check that what a quiet tier shows is on its shelf byte for byte, and nothing else is.

    Args:
        tier: The tier; blocks that were harmed and that nobody has read yet leave it.
        payloads: The bytes of each block by its hash.
    """
    keeping, shelf = tier.keeping, shelf_of(tier)
    assert keeping is not None
    # From here on a slow machine is no trouble of the shelf.
    keeping.store._lane.timeout = 10.0
    mend(keeping.store)
    await keeping.store.flush()
    slots = [slot for slot, state in enumerate(tier.table.state) if state == READY]
    read = [np.zeros(BLOCK_BYTES, np.uint8) for _ in slots]
    outcomes = await keeping.load(slots, read).outcomes()
    for slot, outcome, block in zip(slots, outcomes, read, strict=True):
        if outcome is Outcome.DONE:
            assert block.tobytes() == payloads[tier.table.key[slot][-32:]]
        else:
            assert outcome in {Outcome.MISSING, Outcome.DAMAGED}
    in_use = [slot for slot, state in enumerate(tier.table.state) if state != FREE]
    assert set(shelf.blocks) <= {
        each.name for each in keeping._records(in_use, [0] * len(in_use))
    }, "nothing is left behind"
