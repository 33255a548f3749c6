"""Sending what was stored on the primary on to the secondaries that want it."""

import asyncio
import time
from collections.abc import Callable, Sequence

from kvtier.client.index import BlockIndex
from kvtier.client.proxy.breaker import Breaker
from kvtier.client.proxy.cascades.carrying import Carrier, StoredBlocks
from kvtier.client.proxy.cascades.cascade import Cascade, CascadeCounts
from kvtier.client.proxy.cascades.lane import Lane
from kvtier.client.proxy.fleet import Endpoint, Fleet, check_names, names_of
from kvtier.client.proxy.load_leases import LoadLeases
from kvtier.client.proxy.settings import CascadeSettings, CascadeTo, check_word


class Cascades:
    """Lets secondaries pull what was stored on the primary.

    Each secondary has a queue and a worker of its own, so that a slow one delays neither another
    nor a store. One whose queue is full, that is down, or that failed a moment ago is skipped and
    counted.

    Args:
        fleet: The nodes.
        index: What they hold.
        leases: Takes the leases on the primary.
        settings: How that is done.
        clock: The time, in seconds.
    """

    def __init__(
        self,
        fleet: Fleet,
        index: BlockIndex,
        leases: LoadLeases,
        settings: CascadeSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fleet = fleet
        self._index = index
        self._leases = leases
        self._settings = settings
        self._clock = clock
        self._lanes: dict[str, tuple[Endpoint, Lane]] = {}
        self._closed = False

    def choose(self, to: CascadeTo | None = None) -> list[Endpoint]:
        """Return the secondaries that want a store, in order.

        Args:
            to: What the call says; None means as configured.

        Raises:
            InvalidArgumentError: When the call names what is no secondary's.
        """
        check_word(to)
        wanted, known = self._settings.to if to is None else to, self._fleet.secondaries
        if isinstance(wanted, str):
            return list(known) if wanted == "all" else []
        if to is not None:
            check_names("cascade", to, known, "secondary")
        return [each for each in known if set(names_of(each)) & set(wanted)]

    def start(self, stored: StoredBlocks, to: Sequence[Endpoint]) -> Cascade:
        """Send blocks that are readable on the primary on to some secondaries.

        Args:
            stored: The blocks.
            to: The secondaries, as `choose` told.
        """
        self._forget_the_removed()
        if not stored.places:
            return Cascade()
        return Cascade([self._lane(member).offer(stored) for member in to])

    def counts(self) -> dict[str, CascadeCounts]:
        """Return what was done so far for each secondary that a store was sent to, by address."""
        return {endpoint: lane.counts for endpoint, (_, lane) in self._lanes.items()}

    async def leave(self, member: Endpoint) -> None:
        """Send nothing more to a secondary that is removed; what waits for it is skipped."""
        if member.endpoint in self._lanes:
            _, lane = self._lanes.pop(member.endpoint)
            await lane.close()

    async def close(self) -> None:
        """End all that is under way. Closing twice is harmless."""
        self._closed = True
        await asyncio.gather(*(lane.close() for _, lane in self._lanes.values()))

    def _lane(self, member: Endpoint) -> Lane:
        if member.endpoint not in self._lanes:
            self._lanes[member.endpoint] = member, self._make_lane(member)
        if self._closed:
            self._lanes[member.endpoint][1].stop()
        return self._lanes[member.endpoint][1]

    def _make_lane(self, member: Endpoint) -> Lane:
        how = self._settings
        tier = how.tiers.get(member.endpoint, "")
        carrier = Carrier(
            self._fleet, self._index, self._leases, member, tier=tier, stall=how.stall
        )
        breaker = Breaker(pause=how.pause, longest=how.longest_pause, clock=self._clock)
        return Lane(member, carrier, breaker, how)

    def _forget_the_removed(self) -> None:
        there = self._fleet.secondaries
        for endpoint, (member, lane) in list(self._lanes.items()):
            if not any(member is each for each in there):
                lane.stop()
                del self._lanes[endpoint]
