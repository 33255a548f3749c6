"""Promotion: bringing up what a load asks for, as long a prefix as there is room for."""

import asyncio
from collections.abc import Sequence
from itertools import groupby

from kvtier.server.tiering.carrier import COPIED, FAILED, NO_ROOM, Carrier
from kvtier.server.tiering.jobs import Jobs
from kvtier.server.tiering.links import Link
from kvtier.server.tiers.room import evictable
from kvtier.server.tiers.table import READY
from kvtier.server.tiers.tier import Tier

Source = tuple[Tier, int]


class Flight:
    """Blocks that one request brings up, and who waits for them.

    Attributes:
        target: Where they go.
        keys: The blocks.
        done: Ends when they have arrived, or will not.
        waiters: How many still have to take them.
    """

    def __init__(self, target: Tier, keys: Sequence[bytes]) -> None:
        self.target = target
        self.keys = frozenset(keys)
        self.done: asyncio.Task[None] | None = None
        self.waiters = 0
        self._arrived: list[int] = []
        self._landed = False

    def arrive(self, keys: Sequence[bytes]) -> None:
        """Note blocks that are there, and held for a copy."""
        slots = self.target.table.index.get_many(keys)
        self._arrived += [slot for slot in slots if slot is not None]

    def land(self) -> None:
        """Note that no more blocks arrive."""
        self._landed = True
        self._let_go()

    def leave(self) -> None:
        """Note that one who waited took what was there, or gave up."""
        self.waiters -= 1
        self._let_go()

    def _let_go(self) -> None:
        if self._landed and not self.waiters:
            slots, self._arrived = self._arrived, []
            self.target.occupancy.let_go_of_copies(slots)


class Awaited:
    """What a load that asked for a promotion waits for; what it has is held until it ends.

    Attributes:
        coming: The blocks that are on their way.
    """

    def __init__(self, target: Tier, held: Sequence[int], flights: Sequence[Flight]) -> None:
        self._target = target
        self._held = held
        self._flights = flights
        for flight in flights:
            flight.waiters += 1

    @property
    def coming(self) -> frozenset[bytes]:
        """The blocks that are still on their way."""
        return frozenset().union(
            *(f.keys for f in self._flights if f.done is not None and not f.done.done())
        )

    async def wait(self, seconds: float) -> None:
        """Wait until all of it has arrived, or for a time."""
        tasks = {flight.done for flight in self._flights if flight.done is not None}
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)

    def end(self) -> None:
        """Let go of everything."""
        self._target.occupancy.unpin(self._held)
        for flight in self._flights:
            flight.leave()


class Promoter:
    """Brings blocks up; a block that is on its way is brought once, however many ask.

    Args:
        tiers: The node's tiers, from fastest to slowest.
        links: What each tier's configuration says.
        carrier: Carries blocks.
        jobs: Runs what must not end with the call that began it.
    """

    def __init__(
        self, tiers: Sequence[Tier], links: dict[Tier, Link], carrier: Carrier, jobs: Jobs
    ) -> None:
        self._tiers = tiers
        self._links = links
        self._carrier = carrier
        self._jobs = jobs
        self._flights: dict[Tier, dict[bytes, Flight]] = {tier: {} for tier in tiers}

    def promote(self, target: Tier, keys: Sequence[bytes]) -> Awaited:
        """Begin to bring up what a tier lacks of these blocks, from the first on.

        It ends before the first block that no slower tier has, and where the tier has no room or
        admits no more.
        """
        distinct = list(dict.fromkeys(keys))
        here, flying = target.table.index.get_many(distinct), self._flights[target]
        sources = self.find(target, distinct)
        held: list[int] = []
        flights: dict[Flight, None] = {}
        wanted: list[tuple[bytes, Source]] = []
        for key, slot, source in zip(distinct, here, sources, strict=True):
            if slot is not None:
                held.append(slot)
            if key in flying:
                flights[flying[key]] = None
            elif slot is None:
                if source is None:
                    break
                wanted.append((key, source))
        target.occupancy.hold(held)
        admitted = wanted[: self._admissible(target)]
        if admitted:
            flights[self._start(target, admitted)] = None
        return Awaited(target, held, list(flights))

    def find(self, target: Tier, keys: Sequence[bytes]) -> list[Source | None]:
        """Return which slower tier has each block, if its slots fit the target's, and where.

        A tier that does not answer counts as if it had none.
        """
        found: list[Source | None] = [None] * len(keys)
        if not target.table.capacity:
            return found
        for tier in reversed(self._tiers[self._tiers.index(target) + 1 :]):
            table = tier.table
            if tier.keeping is not None and tier.keeping.store.stands_still:
                continue
            for place, slot in enumerate(table.index.get_many(keys)):
                if slot is None or table.state[slot] != READY:
                    continue
                origin = table.origin[slot]
                if target.takes(origin.space, origin.adapter_name):
                    found[place] = (tier, slot)
        return found

    def under_way(self, target: Tier, key: bytes) -> asyncio.Task[None] | None:
        """Return what brings a block up to a tier now."""
        flight = self._flights[target].get(key)
        return flight.done if flight is not None else None

    def _admissible(self, target: Tier) -> int:
        """Return how many more blocks may be brought up: stores must find room, too."""
        occupancy, capacity = target.occupancy, target.table.capacity
        taken = occupancy.leased + occupancy.pending + occupancy.draining
        planned = target.table.index.get_many(self._flights[target]).count(None)
        limit = int(self._links[target].promotion_limit * capacity) - taken - planned
        room = target.table.free + evictable(occupancy) - planned
        return max(0, min(limit, room))

    def _start(self, target: Tier, admitted: Sequence[tuple[bytes, Source]]) -> Flight:
        flight = Flight(target, [key for key, _ in admitted])
        self._flights[target].update(dict.fromkeys(flight.keys, flight))
        groups = [
            (source, [slot for _, (_, slot) in some])
            for source, some in groupby(admitted, key=lambda each: each[1][0])
        ]
        for source, slots in groups:
            source.occupancy.hold_for_copy(slots)
        flight.done = self._jobs.start(self._bring(flight, groups))
        return flight

    async def _bring(self, flight: Flight, groups: Sequence[tuple[Tier, list[int]]]) -> None:
        target, goes_on = flight.target, True
        try:
            for source, slots in groups:
                # A prefix has no hole: behind a block that does not come nothing is brought.
                goes_on = goes_on and await self._bring_from(source, flight, slots)
        finally:
            for source, rest in groups:
                source.occupancy.let_go_of_copies(rest)
            for key in flight.keys:
                del self._flights[target][key]
            flight.land()

    async def _bring_from(self, source: Tier, flight: Flight, rest: list[int]) -> bool:
        """Bring blocks up step by step; tell whether those that come later are of use.

        Args:
            source: Where they are.
            flight: What they belong to.
            rest: Their slots, held; those that are let go are taken out of the list.
        """
        target = flight.target
        # What lies in files stays there: it need not be written again when it goes down again.
        move = target.below is source and source.keeping is None
        move = move and source not in self._links[target].through
        while rest:
            # Small blocks are copied without a thread, and then nothing here ever waits.
            await asyncio.sleep(0)
            results = await self._carrier.step(source, target, rest, move=move)
            done = rest[: len(results)]
            del rest[: len(results)]
            arrived = [s for s, result in zip(done, results, strict=True) if result == COPIED]
            flight.arrive([source.table.key[slot] for slot in arrived])
            source.occupancy.let_go_of_copies(done)
            if NO_ROOM in results or FAILED in results:
                return False
        return True
