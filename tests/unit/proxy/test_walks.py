"""Whatever happens in whatever order, views come true once it is quiet."""

import asyncio
import random
from itertools import count
from typing import TYPE_CHECKING

import pytest

from tests.unit.events.virtual_time import virtual_time

from .origins import DOWN, LIVE, Origin
from .world import Reader, World

if TYPE_CHECKING:
    from tests.contract.folding import Fold

STEPS = 150
QUIET_SECONDS = 60.0


class Walk:
    """Two origins, a proxy, followers who stay, and one who comes and goes."""

    def __init__(self, dice: random.Random) -> None:
        self.origins = [Origin("a"), Origin("b")]
        self.world = World(*self.origins, max_batches=dice.choice([3, 8, 64]))
        for origin in self.origins:
            self.world.upstreams[origin.node_id].start_over()
        self.readers = [Reader(self.world).start() for _ in range(3)]
        self.resumed: dict[str, Fold] = {}
        self.returning = Reader(self.world, self.resumed).start()
        self._dice = dice
        self._epochs, self._numbers = count(8), count(100)

    @property
    def everybody(self) -> list[Reader]:
        return [*self.readers, self.returning]

    async def step(self) -> None:
        """Do one thing."""
        name = self._dice.choice([*HAPPENINGS] + 6 * ["store"] + 3 * ["hear", "read_on", "pause"])
        await getattr(self, f"_{name}")(self._dice.choice(self.origins))

    async def be_quiet(self) -> None:
        """Let everybody hear of everything."""
        for reader in self.readers:
            reader.read_on()
        for origin in self.origins:
            await self._live(origin)
        await asyncio.sleep(QUIET_SECONDS)
        for origin in self.origins:
            await self._store(origin)
            await self._live(origin)
        await asyncio.sleep(QUIET_SECONDS)

    async def _store(self, origin: Origin) -> None:
        origin.store(next(self._numbers), next(self._numbers))

    async def _remove(self, origin: Origin) -> None:
        if origin.blocks:
            origin.remove(self._dice.choice(sorted(origin.blocks)))

    async def _clear(self, origin: Origin) -> None:
        origin.clear()

    async def _new_life(self, origin: Origin) -> None:
        origin.begin(next(self._epochs))

    async def _forget(self, origin: Origin) -> None:
        origin.oldest = origin.head - self._dice.randrange(min(4, origin.head + 1))

    async def _read(self, origin: Origin) -> None:
        self.world.upstreams[origin.node_id].read()

    async def _read_snapshot(self, origin: Origin) -> None:
        self.world.upstreams[origin.node_id].read_snapshot()

    async def _hear(self, origin: Origin) -> None:
        self.world.upstreams[origin.node_id].hear(self._dice.choice([1, 2, 1000]))

    async def _down(self, origin: Origin) -> None:
        self.world.upstreams[origin.node_id].stand(DOWN)

    async def _live(self, origin: Origin) -> None:
        self.world.upstreams[origin.node_id].hear()
        self.world.upstreams[origin.node_id].stand(LIVE)

    async def _break(self, _: Origin) -> None:
        self.world.source.break_all()

    async def _stall(self, _: Origin) -> None:
        self._dice.choice(self.readers).stall()

    async def _read_on(self, _: Origin) -> None:
        self._dice.choice(self.readers).read_on()

    async def _return(self, _: Origin) -> None:
        await self.returning.leave()
        self.returning = Reader(self.world, self.resumed).start()
        await asyncio.sleep(0.1)

    async def _pause(self, _: Origin) -> None:
        await asyncio.sleep(self._dice.choice([0.0, 0.01, 3.0]))


HAPPENINGS = [
    name.removeprefix("_")
    for name in vars(Walk)
    if name.startswith("_") and not name.startswith("__")
]


@pytest.mark.parametrize("seed", range(80))
@virtual_time
async def test_views_come_true_after_any_walk(seed: int) -> None:
    """Stores, clears, new lives, forgetful logs, lags, breaks and absences in any order."""
    walk = Walk(random.Random(seed))
    for _ in range(STEPS):
        await walk.step()

    await walk.be_quiet()

    assert walk.world.source.open_streams == 0
    for reader in walk.everybody:
        # Who takes nothing for too long is given up; the others know everything.
        given_up = reader.error is not None and reader.error.reason == "FOLLOWER_STALLED"
        assert given_up or all(reader.agrees(origin) for origin in walk.origins)
        await reader.leave()
