"""The lives of a node with lasting tiers, and what must hold in them."""

import asyncio
import os
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from kvtier.client import NodeClient
from kvtier.server.clock import ManualClock
from kvtier.server.config import NodeConfig
from kvtier.server.lifecycle import TierServer
from kvtier.server.tiers.tier import Tier
from tests.unit.lasting.faulty_disk import Crash

from .caller import Caller
from .grounds import Ground
from .truth import Truth
from .view import View

if TYPE_CHECKING:
    from .blocks import Key

CALLERS = 3
GRAIN = 4096
_PATIENCE = 20.0


class World:
    """A node, its callers, and the ground of its lasting tiers.

    Args:
        tiers: The configurations of its tiers, where the lasting ones are left open.
        ground: Where these are.
        rng: What decides.
        patch: Puts the ground under a node.

    Attributes:
        ground: As given.
        rng: As given.
        truth: What was answered.
        view: What a follower of this life has.
        harmed: Blocks that outside hands have been at, by tier.
        must: Blocks that this life must find, by tier, until that was checked.
    """

    def __init__(
        self,
        tiers: Sequence[dict[str, Any]],
        ground: Ground,
        rng: random.Random,
        patch: pytest.MonkeyPatch,
    ) -> None:
        self.ground = ground
        self.rng = rng
        self.truth = Truth(deletes_last=not ground.forgetful)
        self.harmed: dict[str, set[Key]] = defaultdict(set)
        self.must: dict[str, set[Key]] = {}
        self._tiers = tiers
        self._patch = patch
        self.callers: list[Caller] = []

    @property
    def lasting(self) -> list[Tier]:
        """The tiers that last."""
        return [tier for tier in self.server.node.tiers if tier.keeping is not None]

    async def start(self, *, crash_after: int = 0, shrink: int = 0) -> None:
        """Begin a life.

        Args:
            crash_after: In how many operations it shall end already; 0: not by itself.
            shrink: How many grains of room the lasting tiers shall have less.
        """
        while True:
            self.ground.begin(self._patch)
            if self.ground.forgot:
                self.must.clear()
            if crash_after:
                self.ground.crash(crash_after)
            try:
                self.server = TierServer(self._config(shrink), clock := ManualClock())
                break
            except Crash:
                crash_after = 0
        self.clock = clock
        self.view = View(self.server.node)
        await self.server.start()
        self.client = NodeClient(self.server.address, timeout=15.0)
        names = [tier.name for tier in self.server.node.tiers]
        self.callers = [
            Caller(
                self.client,
                names,
                self.truth,
                random.Random(self.rng.random()),
                (number, CALLERS),
            )
            for number in range(CALLERS)
        ]

    def _config(self, shrink: int) -> NodeConfig:
        tiers = [self._placed(tier, shrink) for tier in self._tiers]
        return NodeConfig.model_validate(
            {
                "node_id": f"walker-{os.getpid()}",
                "listen": "127.0.0.1:0",
                "tiers": tiers,
                "drain_timeout": 0,
                "slot_quarantine": 1,
            }
        )

    def _placed(self, tier: dict[str, Any], shrink: int) -> dict[str, Any]:
        if tier["medium"] not in {"fs", "obj"}:
            return tier
        room = {"capacity": tier["capacity"] - shrink * GRAIN}
        return {**tier, **room, **self.ground.settings(tier["name"])}

    async def end(self, *, larger: bool = True) -> None:
        """End this life as it is; the next must find what it has shown.

        Args:
            larger: Whether the next has as much room.
        """
        if self.ground.crashed:
            self.server.hurry()
        await self.client.close()
        await self.server.drain_and_stop()
        self.ground.calm()
        self.view.follow()
        for tier in self.lasting:
            if not tier.health.recovering:
                self._check_found(tier.name)
                self.must[tier.name] = self.view.blocks[tier.name].copy()
        if not larger:
            self.must.clear()

    async def act(self, most: int = 3) -> None:
        """Let the callers make some calls each, all at one time."""
        calls = [
            asyncio.create_task(caller.act(self.rng.randint(1, most))) for caller in self.callers
        ]
        waiting = set(calls)
        while waiting and not self.ground.crashed:
            _, waiting = await asyncio.wait(waiting, timeout=0.05)
        for call in waiting:
            # Nobody answers any more.
            call.cancel()
        for error in await asyncio.gather(*calls, return_exceptions=True):
            if error is not None and not (self.ground.crashed and _is_end(error)):
                raise error
        self.check_at_any_time()

    def check_at_any_time(self) -> None:
        """Check what holds at every moment."""
        self.view.follow()
        for tier in self.lasting:
            assert tier.table.used_bytes <= tier.capacity_bytes
        for name, keys in self.view.blocks.items():
            assert keys <= self.truth.offered, f"{name} shows what was deleted"

    async def recovered(self) -> None:
        """Wait until the tiers know what they hold, and see that it is all that they must."""
        await self.until(
            lambda: self.ground.crashed or not any(t.health.recovering for t in self.lasting)
        )
        if self.ground.crashed:
            return
        self.check_at_any_time()
        for tier in self.lasting:
            self._check_found(tier.name)

    def _check_found(self, tier: str) -> None:
        must = self.must.pop(tier, set())
        lost = must - self.harmed[tier] - self.view.ever[tier]
        assert not lost, f"{tier} lost {len(lost)} blocks of {len(must)} at a restart"

    def harm(self) -> None:
        """Let outside hands be at a lasting tier's blocks."""
        name = self.rng.choice(self.lasting).name
        self.harmed[name] |= self.ground.harm(self.rng, name)

    async def until(self, done: Callable[[], object], what: str = "") -> None:
        """Wait until something is so."""
        try:
            async with asyncio.timeout(_PATIENCE):
                while not done():  # noqa: ASYNC110 - nothing tells of it
                    await asyncio.sleep(0.005)
        except TimeoutError:
            raise AssertionError(f"it never came to be: {what}") from None


def _is_end(error: BaseException) -> bool:
    return not isinstance(error, AssertionError)
