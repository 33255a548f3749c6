"""Bringing blocks that only secondaries have to the primary."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kvtier.client.answers import BlockKey, TierOf
from kvtier.client.errors import Reason
from kvtier.client.index import BlockIndex
from kvtier.client.proxy.breaker import Breaker
from kvtier.client.proxy.fleet import Endpoint, Fleet, node_of
from kvtier.client.proxy.promotions.admission import Admission
from kvtier.client.proxy.promotions.flight import Flight, Route
from kvtier.client.proxy.promotions.verdicts import Verdicts
from kvtier.client.proxy.runs import Runs
from kvtier.client.proxy.settings import PromotionSettings
from kvtier.v1.copying_pb2 import PeerTier
from kvtier.v1.result_pb2 import CopyResult

_CAME = {CopyResult.COPY_RESULT_COPIED, CopyResult.COPY_RESULT_PRESENT}
_HAS_NOT = {CopyResult.COPY_RESULT_MISS, CopyResult.COPY_RESULT_CORRUPT}
# What the primary says when the trouble is the secondary's.
_THEIRS = {Reason.PEER_UNREACHABLE, Reason.PEER_NOT_ALLOWED, Reason.TIER_UNKNOWN}


@dataclass(slots=True)
class PromotionCounts:
    """What was brought from one secondary so far, in blocks.

    Attributes:
        copied: Came, or were there when they would have.
        missing: It did not have them after all.
        failed: Did not come for another reason.
        error: What the last copy that failed as a whole failed with; empty when none did.
    """

    copied: int = 0
    missing: int = 0
    failed: int = 0
    error: str = ""


class Promotions:
    """Brings each block once, however many ask for it at one time.

    A secondary that fails, or stands still until nobody waits for it any more, is left alone for a
    while.

    Args:
        fleet: The nodes.
        index: What they hold.
        verdicts: What they were found not to have.
        settings: How much may be on its way, and when a secondary is left alone.
        clock: The time, in seconds.

    Attributes:
        fleet: As given.
        index: As given.
        verdicts: As given.
        counts: What was brought so far, by a secondary's address.
    """

    def __init__(
        self,
        fleet: Fleet,
        index: BlockIndex,
        verdicts: Verdicts,
        settings: PromotionSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.fleet = fleet
        self.index = index
        self.verdicts = verdicts
        self.counts: dict[str, PromotionCounts] = {}
        self._admission = Admission(blocks=settings.blocks, size=settings.bytes)
        self._settings = settings
        self._clock = clock
        self._breakers: dict[str, Breaker] = {}
        # Seconds that loads waited for nothing, since something came.
        self._silences: dict[str, float] = {}
        self._under_way: dict[tuple[str, BlockKey], Flight] = {}
        self._flights: set[Flight] = set()
        self._closed = False

    @property
    def under_way(self) -> int:
        """Blocks that are on their way now."""
        return len(self._under_way)

    def order(self) -> list[TierOf]:
        """Return whom to ask for blocks, first to last."""
        return [
            TierOf(node, tier)
            for member in self.fleet.secondaries
            if (node := node_of(member)) and self.fleet.trusts(node) and not self.pausing(member)
            for tier in self.index.tiers(node)
        ]

    def pausing(self, member: Endpoint) -> bool:
        """Tell whether a secondary is left alone now."""
        breaker = self._breakers.get(member.endpoint)
        return breaker is not None and breaker.is_open

    def joined(self, tier: str, key: BlockKey) -> Flight | None:
        """Return what brings a block to a tier now, if anything does."""
        return self._under_way.get((tier, key))

    def start(
        self, tier: str, source: TierOf, runs: Runs, places: Sequence[int]
    ) -> tuple[Flight | None, list[int]]:
        """Begin to bring blocks, as many as are admitted.

        Args:
            tier: The primary's tier.
            source: Where they are.
            runs: The blocks' request.
            places: The places there of the blocks, none of them on its way.

        Returns:
            What brings them, None when nothing was admitted, and the places of those it brings.
        """
        endpoint = "" if self._closed else self._endpoint(source.node)
        admitted = [p for p in places if endpoint and self._admission.enter(runs.sizes[p])]
        if not admitted:
            return None, []
        size_of = {runs.keys[place]: runs.sizes[place] for place in admitted}

        def arrived(flight: Flight, key: BlockKey, result: CopyResult.ValueType) -> None:
            # Who was failed by one secondary may bring a block from the next, though another load
            # asks the first one again.
            if self._under_way.get((tier, key)) is flight:
                del self._under_way[tier, key]
            self._admission.leave(size_of[key])
            self._count(flight, key, result)

        peer = PeerTier(endpoint=endpoint, tier=source.tier)
        flight = Flight(
            Route(self.fleet.primary.client, tier, peer, source.node),
            runs,
            admitted,
            arrived=arrived,
            ended=self._ended,
            clock=self._clock,
        )
        self._flights.add(flight)
        self._under_way.update(dict.fromkeys(((tier, key) for key in flight.arrivals), flight))
        return flight, admitted

    async def leave(self, member: Endpoint) -> None:
        """End what is on its way from a secondary that is removed, and forget what it did."""
        endpoint = member.endpoint
        theirs = [each for each in self._flights if each.route.endpoint == endpoint]
        await asyncio.gather(*(flight.close() for flight in theirs))
        self.counts.pop(endpoint, None)
        self._breakers.pop(endpoint, None)
        self._silences.pop(endpoint, None)

    async def close(self) -> None:
        """End what is on its way. Closing twice is harmless."""
        self._closed = True
        await asyncio.gather(*(flight.close() for flight in self._flights))

    def _endpoint(self, node: str) -> str:
        return next((m.endpoint for m in self.fleet.secondaries if node_of(m) == node), "")

    def _count(self, flight: Flight, key: BlockKey, result: CopyResult.ValueType) -> None:
        counts = self.counts.setdefault(flight.route.endpoint, PromotionCounts())
        if result in _CAME:
            counts.copied += 1
        elif result in _HAS_NOT:
            counts.missing += 1
            self.verdicts.deny(flight.route.node, key)
        else:
            counts.failed += 1

    def _ended(self, flight: Flight) -> None:
        self._flights.discard(flight)
        self._judge(flight)

    def _judge(self, flight: Flight) -> None:
        """Leave a secondary alone when it failed, or stood still however often it was asked."""
        endpoint, error = flight.route.endpoint, flight.error
        came = any(each.result() in _CAME | _HAS_NOT for each in flight.arrivals.values())
        before = self._silences.pop(endpoint, 0.0)
        silence = (0.0 if came else before) + (flight.still if flight.given_up else 0.0)
        if error is not None:
            self.counts[endpoint].error = str(error)
        if silence >= self._settings.stall or (error is not None and error.reason in _THEIRS):
            self._leave_alone(endpoint, (error.retry_after if error is not None else None) or 0.0)
            return
        self._silences[endpoint] = silence
        if came:
            self._breakers.pop(endpoint, None)

    def _leave_alone(self, endpoint: str, at_least: float) -> None:
        how = self._settings
        if endpoint not in self._breakers:
            self._breakers[endpoint] = Breaker(
                pause=how.pause, longest=how.longest_pause, clock=self._clock
            )
        self._breakers[endpoint].failed(at_least)
