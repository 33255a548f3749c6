"""Slots that a late writer may still be writing into."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from kvtier.server.clock import Clock
from kvtier.server.mappings import Mappings
from kvtier.server.tiers.tier import Tier

_PROBE_SECONDS = 1.0


class _Held(NamedTuple):
    lease_id: bytes
    tier: Tier
    mapping: int
    slots: Sequence[int]
    until: float


class Quarantine:
    """Keeps slots from being used again until nobody can still be writing there.

    That is when the writer gives its word, its mapping is no longer held, or a time has passed.

    Args:
        mappings: The node's mappings.
        clock: The clock.
        seconds: How long slots are kept at most.
    """

    def __init__(self, mappings: Mappings, clock: Clock, seconds: float) -> None:
        self._mappings = mappings
        self._clock = clock
        self._seconds = seconds
        # By generation, and in the order of their ends, since each stays equally long.
        self._held: OrderedDict[int, _Held] = OrderedDict()
        self._next_probe = 0.0

    def take(
        self, lease_id: bytes, generation: int, tier: Tier, mapping: int, slots: Sequence[int]
    ) -> None:
        """Keep the slots of a lease that ended without its owner's word; their blocks are gone.

        Each has one lease left, which ends with the quarantine.
        """
        if not slots:
            return
        tier.occupancy.quarantine(slots)
        until = self._clock.monotonic() + self._seconds
        self._held[generation] = _Held(lease_id, tier, mapping, slots, until)
        if not self._mappings.is_held(tier, mapping):
            self._free(generation)

    def hear(self, lease_id: bytes, generation: int) -> None:
        """Take the word of a lease's owner that it writes no more."""
        held = self._held.get(generation)
        if held is not None and held.lease_id == lease_id:
            self._free(generation)

    def expire(self) -> None:
        """Free what was kept long enough, and about once a second what dead writers left."""
        now = self._clock.monotonic()
        while self._held:
            generation, held = next(iter(self._held.items()))
            if held.until > now:
                break
            self._free(generation)
        if self._held and now >= self._next_probe:
            self._next_probe = now + _PROBE_SECONDS
            self._probe()

    def _probe(self) -> None:
        writers = {(held.tier, held.mapping) for held in self._held.values()}
        gone = {writer for writer in writers if not self._mappings.is_held(*writer)}
        for generation, held in list(self._held.items()) if gone else ():
            if (held.tier, held.mapping) in gone:
                self._free(generation)

    def _free(self, generation: int) -> None:
        held = self._held.pop(generation)
        held.tier.occupancy.end_quarantine(held.slots)
