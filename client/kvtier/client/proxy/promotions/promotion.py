"""Bringing the blocks of one load."""

import asyncio
from collections.abc import Sequence

from kvtier.client.errors import InvalidArgumentError
from kvtier.client.proxy.fleet import Endpoint, node_of
from kvtier.client.proxy.promotions.flight import Flight
from kvtier.client.proxy.promotions.planning import (
    HIT,
    HIT_PENDING,
    MISS,
    RETRY,
    Holders,
    choose,
)
from kvtier.client.proxy.promotions.promoting import Promotions
from kvtier.client.proxy.runs import Runs
from kvtier.v1.result_pb2 import CopyResult, LookupResult

_MEANING = {
    CopyResult.COPY_RESULT_COPIED: HIT,
    CopyResult.COPY_RESULT_PRESENT: HIT,
    CopyResult.COPY_RESULT_PENDING: HIT_PENDING,
    CopyResult.COPY_RESULT_FAILED: RETRY,
}
# Another secondary may do better.
_TRY_ON = {
    CopyResult.COPY_RESULT_MISS,
    CopyResult.COPY_RESULT_CORRUPT,
    CopyResult.COPY_RESULT_FAILED,
}


class Promotion:
    """What one load brings, from one secondary after the other as long as a block is not there.

    Args:
        promotions: Brings blocks.
        tier: The primary's tier.
        runs: The request.
        places: The places there of the blocks that the primary lacks, each block once.
        holders: Who has each block of the request, as far as the index knows.

    Attributes:
        results: What is known of each block so far, by its place: HIT for one that came,
            HIT_PENDING for one on its way, RETRY for one that may be had later, else MISS.
    """

    def __init__(
        self,
        promotions: Promotions,
        tier: str,
        runs: Runs,
        places: Sequence[int],
        holders: Sequence[Holders],
    ) -> None:
        self.results: dict[int, LookupResult.ValueType] = {}
        self._promotions = promotions
        self._tier = tier
        self._runs = runs
        self._holders = holders
        self._tried: set[tuple[int, str]] = set()
        self._flights: dict[int, Flight] = {}
        self._mine: set[int] = set()
        self._wanted: set[Flight] = set()
        self._take_off(places)

    @property
    def under_way(self) -> bool:
        """Whether something is on its way."""
        return bool(self._flights)

    async def finish(self, until: float) -> None:
        """Wait until nothing is on its way, or a time of the loop has come.

        Raises:
            InvalidArgumentError: When the primary refused this load's own runs.
        """
        loop = asyncio.get_running_loop()
        try:
            while self._flights and loop.time() < until:
                waiting = [self._arrival(place) for place in self._flights]
                await asyncio.wait(
                    waiting,
                    timeout=until - loop.time(),
                    return_when=asyncio.FIRST_COMPLETED,
                )
                self._go_through()
        finally:
            self.leave()

    def leave(self) -> None:
        """Want nothing any more; what only this load wanted is ended."""
        self.results.update(dict.fromkeys(self._flights, RETRY))
        self._flights.clear()
        wanted, self._wanted = self._wanted, set()
        for flight in wanted:
            flight.left()

    def _arrival(self, place: int) -> asyncio.Future[CopyResult.ValueType]:
        return self._flights[place].arrivals[self._runs.keys[place]]

    def _go_through(self) -> None:
        """Take in what has become of blocks; look elsewhere for those that did not come."""
        again = []
        for place in [place for place in self._flights if self._arrival(place).done()]:
            result, flight = self._arrival(place).result(), self._flights.pop(place)
            self.results[place] = _MEANING.get(result, MISS)
            if place in self._mine and isinstance(flight.error, InvalidArgumentError):
                raise flight.error
            if result in _TRY_ON:
                self._tried.add((place, flight.route.node))
                again.append(place)
        if again:
            self._take_off(again)

    def _take_off(self, places: Sequence[int]) -> None:
        """Begin to bring blocks, or join what brings them already."""
        fresh = [place for place in places if not self._join(place)]
        chosen = choose(fresh, self._holders, self._promotions.order(), self._is_barred)
        for source, from_there in chosen.items():
            flight, admitted = self._promotions.start(self._tier, source, self._runs, from_there)
            self.results.update(dict.fromkeys(from_there, RETRY))
            for place in admitted:
                assert flight is not None
                self._mine.add(place)
                self._want(place, flight)
        for place in set(fresh).difference(*chosen.values()):
            self._settle_without(place)

    def _join(self, place: int) -> bool:
        flight = self._promotions.joined(self._tier, self._runs.keys[place])
        if flight is None or (place, flight.route.node) in self._tried:
            return False
        self._want(place, flight)
        return True

    def _want(self, place: int, flight: Flight) -> None:
        self._flights[place] = flight
        self.results[place] = HIT_PENDING
        if flight not in self._wanted:
            self._wanted.add(flight)
            flight.wanted += 1

    def _is_barred(self, place: int, node: str) -> bool:
        tried = (place, node) in self._tried
        return tried or self._promotions.verdicts.denies(node, self._runs.keys[place])

    def _settle_without(self, place: int) -> None:
        """Say of a block that nobody can be asked for now whether to ask again."""
        may_come = any(self._may_have(place, each) for each in self._promotions.fleet.secondaries)
        if may_come or self.results.get(place) == RETRY:
            self.results[place] = RETRY
        else:
            self.results[place] = MISS

    def _may_have(self, place: int, member: Endpoint) -> bool:
        """Tell whether a secondary may have a block, though it cannot be asked now."""
        if member.down or len(member.node_ids) > 1:
            return False
        node = node_of(member)
        if not node or not self._promotions.fleet.trusts(node):
            return True
        if self._is_barred(place, node):
            return False
        held = any(each.node == node for each in self._holders[place])
        pausing = held and self._promotions.pausing(member)
        return pausing or bool(self._promotions.index.recovering(node))
