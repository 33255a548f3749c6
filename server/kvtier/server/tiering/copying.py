"""Copies that somebody asked for, block by block."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kvtier.server.tiering.carrier import Carrier, Results, let_go_of_copies
from kvtier.server.tiering.jobs import Jobs
from kvtier.server.tiering.promotion import Promoter
from kvtier.server.tiers.tier import Tier


class Copying:
    """Runs single steps of copies, which end whether or not the caller stays.

    Args:
        carrier: Carries blocks.
        promoter: Knows what loads bring up.
        jobs: Runs what must not end with the call that began it.
    """

    def __init__(self, carrier: Carrier, promoter: Promoter, jobs: Jobs) -> None:
        self._carrier = carrier
        self._promoter = promoter
        self._jobs = jobs
        self._under_way: dict[tuple[Tier, bytes], asyncio.Future[Any]] = {}

    def start(
        self,
        source: Tier,
        target: Tier,
        slots: Sequence[int],
        *,
        move: bool,
        offer: frozenset[bytes],
    ) -> asyncio.Task[Results]:
        """Begin a step; what it takes and answers for is as `Carrier.step` says."""
        source.occupancy.hold_for_copy(slots)
        step = self._jobs.start(self._step(source, target, slots, move=move, offer=offer))
        keys = [(target, source.table.key[slot]) for slot in slots]
        self._under_way |= dict.fromkeys(keys, step)
        step.add_done_callback(lambda _: self._forget(keys, step))
        return step

    @contextmanager
    def bringing(self, target: Tier, keys: Sequence[bytes]) -> Iterator[None]:
        """Note that the body brings blocks to a tier, which nobody else does."""
        ended = asyncio.get_running_loop().create_future()
        for key in keys:
            self._under_way[target, key] = ended
        try:
            yield
        finally:
            for key in keys:
                del self._under_way[target, key]
            ended.set_result(None)

    async def wait_for_others(self, target: Tier, keys: Sequence[bytes]) -> None:
        """Wait until the node brings none of these blocks to a tier: a block is copied once."""
        while coming := {task for key in keys if (task := self._awaited(target, key)) is not None}:
            await asyncio.wait(coming)

    def _awaited(self, target: Tier, key: bytes) -> asyncio.Future[Any] | None:
        return self._under_way.get((target, key)) or self._promoter.under_way(target, key)

    async def _step(
        self,
        source: Tier,
        target: Tier,
        slots: Sequence[int],
        *,
        move: bool,
        offer: frozenset[bytes],
    ) -> Results:
        try:
            results = await self._carrier.step(source, target, slots, move=move, offer=offer)
            let_go_of_copies(source, target, slots, results)
            return results
        finally:
            source.occupancy.let_go_of_copies(slots)

    def _forget(self, keys: Sequence[tuple[Tier, bytes]], step: asyncio.Task[Results]) -> None:
        """Forget a step, but not one that began after it with the same blocks."""
        for key in keys:
            if self._under_way.get(key) is step:
                del self._under_way[key]
