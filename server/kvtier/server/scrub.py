"""Looking for damage in the background, before a load comes upon it."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import numpy as np

from kvtier.server.lasting.moving import Outcome
from kvtier.server.tiers.keeping import Keeping
from kvtier.server.tiers.losses import drop_unsound
from kvtier.server.tiers.table import READY
from kvtier.server.tiers.tier import Tier

# What a small block counts for: opening it costs more than reading it.
_LEAST_BYTES = 64 << 10
# Slots that are looked at in one go for the next block.
_MOST_SLOTS = 1 << 10
# Seconds until the next look at a tier that cannot be checked, or has nothing to check.
_PAUSE = 0.5
# Pauses that a tier at work is left alone for, since it may be so for ever.
_MOST_PAUSES = 10


async def scrub(
    tier: Tier,
    rate: int,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Read the blocks of a tier round and round, without end, and drop what is damaged or gone.

    One block is read at a time, into memory of its size. Blocks under leases are passed over: their
    next load checks them. Nothing is read while the tier recovers or is in trouble, and little
    while blocks are written to it.

    Args:
        tier: A tier of files or objects.
        rate: Bytes a second, at most; a block counts for 64 KiB at least. 0: nothing is read.
        sleep: Waits for seconds.
        clock: Monotonic seconds.
    """
    keeping = tier.keeping
    assert keeping is not None, f"tier {tier.name} is in memory"
    place = 0
    while rate:
        await _until_quiet(tier, sleep)
        begun = clock()
        slot, place = _find_block(tier, place)
        if slot is None:
            await sleep(_PAUSE)
            continue
        size = await _check(tier, keeping, slot)
        await sleep(max(0.0, max(size, _LEAST_BYTES) / rate - (clock() - begun)))


async def _until_quiet(tier: Tier, sleep: Callable[[float], Awaitable[None]]) -> None:
    pauses = 0
    while not tier.accepts or (_at_work(tier) and pauses < _MOST_PAUSES):
        pauses += 1
        await sleep(_PAUSE)


def _at_work(tier: Tier) -> bool:
    return bool(tier.occupancy.pending or tier.occupancy.copying)


def _find_block(tier: Tier, place: int) -> tuple[int | None, int]:
    """Return the next slot with a block that nobody uses, if it is near, and where to go on."""
    table = tier.table
    end = min(place + _MOST_SLOTS, len(table))
    for slot in range(place, end):
        if table.state[slot] == READY and not table.leases[slot]:
            return slot, slot + 1
    return None, end if end < len(table) else 0


async def _check(tier: Tier, keeping: Keeping, slot: int) -> int:
    """Read a block and compare it; return its size."""
    block = np.empty(tier.table.origin[slot].space.block_bytes, np.uint8)
    tier.occupancy.hold_for_copy([slot])
    try:
        (outcome,) = await keeping.load([slot], [block]).outcomes()
        drop_unsound(tier, [slot], [outcome])
    finally:
        tier.occupancy.let_go_of_copies([slot])
    tier.counters.scrubbed += outcome in {Outcome.DONE, Outcome.DAMAGED}
    return block.size
