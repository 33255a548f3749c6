"""Copying the bytes of a leg to or from a shelf, and checking them.

Threads of the node move what passes between scratch memory and a store in memory, and threads of a
shelf's tier all that is read from it or written to it. Those may be stuck: at the tier's deadline
a copy has failed, and the slots that a thread may fill yet are noted in the leg.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from itertools import compress
from typing import NamedTuple, TypeAlias

import numpy as np

from kvtier.server.lasting.moving import Moving, Outcome
from kvtier.server.stores.base import Bytes
from kvtier.server.stores.copying import SCRATCH_BYTES, batches
from kvtier.server.tiering.legs import Leg
from kvtier.server.tiers.losses import drop_unsound
from kvtier.server.tiers.tier import Tier

# Copies through scratch memory of one shelf's tier at one time.
_AT_ONCE = 8
_Move: TypeAlias = Callable[[Sequence[int], Sequence[Bytes]], None]


class _Part(NamedTuple):
    """Some blocks of a leg: their slots at both ends, and the arrays that they pass through."""

    slots: Sequence[int]
    into: Sequence[int]
    blocks: Sequence[Bytes]

    def only(self, good: Sequence[bool]) -> "_Part":
        slots, into = list(compress(self.slots, good)), list(compress(self.into, good))
        return _Part(slots, into, list(compress(self.blocks, good)))


class Shelving:
    """Copies the legs of which one end or both are shelves.

    Args:
        threads: Where stores in memory are read and written.
    """

    def __init__(self, threads: Executor) -> None:
        self._threads = threads
        self._turns: dict[Tier, asyncio.Semaphore] = {}

    async def copy(self, leg: Leg) -> list[bool]:
        """Copy the blocks of a leg; tell which arrived whole, at the deadlines at the latest.

        Blocks that are damaged or have vanished are dropped by the source.

        Raises:
            OSError, RuntimeError, ValueError: When a store in memory fails.
        """
        lengths = leg.lengths()
        source, target = _views(leg.source, leg.slots, lengths), None
        if source is None:
            target = _views(leg.target, leg.into, lengths)
        blocks = source or target
        if blocks is None:
            return await self._copy_through_scratch(leg, lengths)
        part = _Part(leg.slots, leg.into, blocks)
        return await self._copy(leg, part, fill=source is None, empty=target is None)

    async def _copy_through_scratch(self, leg: Leg, lengths: Sequence[int]) -> list[bool]:
        shelf = leg.target if leg.source.keeping is None else leg.source
        good: list[bool] = []
        async with self._turns.setdefault(shelf, asyncio.Semaphore(_AT_ONCE)):
            for first, last in batches(lengths, SCRATCH_BYTES):
                if leg.given_up:
                    # One deadline is as long as anybody waits.
                    break
                blocks: list[Bytes] = [np.empty(n, np.uint8) for n in lengths[first:last]]
                part = _Part(leg.slots[first:last], leg.into[first:last], blocks)
                good += await self._copy(leg, part, fill=True, empty=True)
        return good + [False] * (len(lengths) - len(good))

    async def _copy(self, leg: Leg, part: _Part, *, fill: bool, empty: bool) -> list[bool]:
        """Bring blocks into their arrays unless they are there, and from there to the target."""
        there = [True] * len(part.slots)
        if fill:
            there = await self._fill(leg, part, in_place=not empty)
        if not empty:
            return there
        some = part.only(there)
        arrived = iter(await self._empty(leg, some) if some.slots else ())
        return [was and next(arrived) for was in there]

    async def _fill(self, leg: Leg, part: _Part, *, in_place: bool) -> list[bool]:
        source = leg.source
        if source.keeping is None:
            positions = list(map(source.position_of, part.slots))
            await self._in_thread(source.arena.read_into, positions, part.blocks)
            return [True] * len(part.slots)
        moving = source.keeping.load(part.slots, part.blocks)
        outcomes = await _outcomes(leg, moving, part.into if in_place else ())
        lost = [outcome is Outcome.MISSING for outcome in outcomes]
        leg.vanished.update(compress(part.slots, lost))
        return drop_unsound(source, part.slots, outcomes)

    async def _empty(self, leg: Leg, part: _Part) -> list[bool]:
        source, target = leg.source, leg.target
        checksums = [source.table.checksum[slot] for slot in part.slots]
        if target.keeping is None:
            positions = list(map(target.position_of, part.into))
            await self._in_thread(target.arena.write_many, positions, part.blocks)
            return [True] * len(part.slots)
        # It may have failed since the copy was begun, which must not fail part by part.
        if not target.accepts:
            return [False] * len(part.slots)
        moving = target.keeping.save(part.into, checksums, part.blocks)
        outcomes = await _outcomes(leg, moving, part.into)
        for slot, outcome in zip(part.slots, outcomes, strict=True):
            if outcome is Outcome.DIFFERS:
                source.drop_corrupt(slot)
        return [outcome is Outcome.DONE for outcome in outcomes]

    async def _in_thread(
        self, move: _Move, positions: Sequence[int], blocks: Sequence[Bytes]
    ) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._threads, move, positions, blocks)


async def _outcomes(leg: Leg, moving: Moving, filling: Sequence[int]) -> list[Outcome]:
    """Wait for what becomes of blocks, and note the slots of the target that are filled after it.

    Args:
        leg: The leg.
        moving: The blocks on their way.
        filling: Slots of the target that they are on their way into.
    """
    try:
        return await moving.outcomes()
    finally:
        leg.given_up |= moving.given_up
        if filling and not moving.ended.done():
            leg.late.append((filling, moving.ended))


def _views(tier: Tier, slots: Sequence[int], lengths: Sequence[int]) -> list[Bytes] | None:
    """Return the own bytes of blocks in memory; None where the processor cannot reach them."""
    if tier.keeping is not None:
        return None
    return tier.arena.views(list(map(tier.position_of, slots)), lengths)
