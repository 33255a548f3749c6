"""A tier: what every kind of storage has in common."""

from collections.abc import Sequence

from kvtier.server.clock import Clock
from kvtier.server.stores.base import BlockStore
from kvtier.server.tiers.allowance import check_allowance
from kvtier.server.tiers.announce import Announcer
from kvtier.server.tiers.columns import gather
from kvtier.server.tiers.counters import Counters
from kvtier.server.tiers.occupancy import Occupancy
from kvtier.server.tiers.offer import MISMATCH, Plan, Reservation, Run, plan_offer
from kvtier.server.tiers.policies import make_policy
from kvtier.server.tiers.policy import Columns, Stamps
from kvtier.server.tiers.room import evictable, no_room
from kvtier.server.tiers.spaces import Space, Spaces
from kvtier.server.tiers.spare import divide
from kvtier.server.tiers.table import READY, WRITTEN, BlockTable, Groups, Origin
from kvtier.server.tiers.threshold import Threshold
from kvtier.v1.block_pb2 import (
    REMOVAL_REASON_CORRUPT,
    REMOVAL_REASON_DEMOTED,
    REMOVAL_REASON_EVICTED,
)
from kvtier.v1.result_pb2 import (
    LOOKUP_RESULT_HIT,
    LOOKUP_RESULT_HIT_PENDING,
    LOOKUP_RESULT_MISS,
    LookupResult,
)

_ANY = 1 << 63


class Tier:
    """One store of blocks: bytes in slots, a block table, a policy, and its own events.

    All methods are bookkeeping: they run on the event loop, never wait and do no I/O. Bytes are
    moved by whoever holds slots, at `position_of`.

    Attributes:
        name: The tier's name.
        store: Where the bytes are.
        policy_name: The replacement policy's name.
        threshold: Defers blocks that were not offered often enough; None stores all at once.
        announcer: The tier's own events.
        capacity_bytes: Bytes for blocks; the store has a few spare slots beyond them where blocks
            change places with those of another tier.
        below: The tier that evicted blocks go to.
        slot_bytes: Bytes per slot; 0 until the first namespace fixes it.
        occupancy: The slots' states and counts.
        counters: What happened since the start.
    """

    def __init__(
        self,
        name: str,
        store: BlockStore,
        *,
        capacity_bytes: int,
        policy_name: str,
        announcer: Announcer,
        spaces: Spaces,
        stamps: Stamps,
        clock: Clock,
        threshold: Threshold | None = None,
    ) -> None:
        self.name = name
        self.store = store
        self.capacity_bytes = capacity_bytes
        self.below: Tier | None = None
        self.policy_name = policy_name
        self.threshold = threshold
        self.announcer = announcer
        self._spaces = spaces
        self._stamps = stamps
        self._clock = clock
        self.counters = Counters()
        self.slot_bytes = 0
        self.occupancy = self._lay_out(0, 0)

    def fix_slots(self, slot_bytes: int) -> None:
        """Divide the capacity into slots; only while the tier has none."""
        assert not self.slot_bytes
        self.slot_bytes = slot_bytes
        self.occupancy = self._lay_out(
            *divide(self.capacity_bytes, self.store.capacity_bytes, slot_bytes)
        )

    def _lay_out(self, capacity: int, spare: int) -> Occupancy:
        table = BlockTable(capacity, spare)
        columns = Columns(capacity, table.key, table.start, table.leases)
        policy = make_policy(self.policy_name, columns, self._stamps)
        return Occupancy(table, policy, self.announcer, self._spaces)

    @property
    def table(self) -> BlockTable:
        """What is known of each slot."""
        return self.occupancy.table

    def position_of(self, slot: int) -> int:
        """Return where a slot begins in the store, in bytes."""
        return slot * self.slot_bytes

    # Reading

    def prefix(self, keys: Sequence[bytes]) -> int:
        """Return how many blocks from the first on are readable."""
        return self.table.index.prefix(keys, self.table.state, READY)

    def holds(self, key: bytes) -> bool:
        """Tell whether a block is readable."""
        slot = self.table.index.get(key)
        return slot is not None and self.table.state[slot] == READY

    def look_up(self, keys: Sequence[bytes]) -> list[LookupResult.ValueType]:
        """Return the `LookupResult` of each block."""
        results, _ = self._examine(self.table.index.get_many(keys))
        return results

    # Storing

    def shortage(
        self, request_id: str, runs: Sequence[Run], allowed_bytes: int, in_hand: int
    ) -> tuple[int, list[int]]:
        """Return how many blocks must go for an offer, and the slots of its own blocks.

        Args:
            request_id: The request that stores, for recency.
            runs: What is offered.
            allowed_bytes: Most bytes that the caller may reserve.
            in_hand: Slots that were freed for it and are held.

        Raises:
            KvtierError: As `reserve` does.
        """
        plan = self._plan(runs)
        check_allowance(plan.fresh_bytes(), allowed_bytes, "leased")
        missing = self._missing_room(len(plan.fresh), plan.residents, in_hand)
        if missing > 0:
            self.occupancy.policy.expect(request_id, plan.residents, plan.fresh_keys())
        return missing, plan.residents

    def reserve(
        self, request_id: str, runs: Sequence[Run], allowed_bytes: int = _ANY
    ) -> Reservation:
        """Reserve slots for the absent blocks of an offer, evicting what is needed.

        Every reserved slot, and no other, gets a lease, which `publish` or `abandon` ends.

        Args:
            request_id: The request that stores, for recency.
            runs: What is offered.
            allowed_bytes: Most bytes that the caller may reserve.

        Raises:
            KvtierError: RESOURCE_EXHAUSTED when there is no room for all of them, or they are more
                than the caller may reserve; INVALID_ARGUMENT when a run leaves a gap after its
                parent; nothing changed then.
        """
        plan = self._plan(runs)
        needed = plan.fresh_bytes()
        check_allowance(needed, allowed_bytes, "leased")
        missing = self._missing_room(len(plan.fresh), plan.residents)
        if self.threshold:
            self.counters.deferred += self.threshold.count(plan)
        self.counters.mismatched += plan.outcomes.count(MISMATCH)
        evicted: list[tuple[Space, bytes]] = []
        if missing > 0:
            self.occupancy.policy.expect(request_id, plan.residents, plan.fresh_keys())
            evicted = self.evict(missing, plan.residents)
        slots = self.occupancy.take(len(plan.fresh))
        self.occupancy.enter(plan, slots)
        self._stamp_offer(request_id, plan, slots)
        return Reservation(plan.outcomes, slots, plan.fresh, plan.aliases, evicted, needed)

    def mark_written(self, slots: Sequence[int], checksums: Sequence[int]) -> None:
        """Note that reserved slots hold whole blocks with these XXH3-64 checksums."""
        checksum, state = self.table.checksum, self.table.state
        for slot, value in zip(slots, checksums, strict=True):
            checksum[slot] = value
            state[slot] = WRITTEN

    def publish(self, slots: Sequence[int]) -> None:
        """Make written slots readable and end their leases."""
        if not slots:
            return
        groups = self.occupancy.make_ready(slots, self._clock.time())
        self.counters.stored += len(slots)
        self.announcer.stored(self.table, groups)

    def abandon(self, slots: Sequence[int]) -> None:
        """Give reserved slots back, and end their leases."""
        self.cut_off(slots)
        self.occupancy.unpin(slots)

    def cut_off(self, slots: Sequence[int]) -> None:
        """Take blocks that are being written away from their writers, who keep their leases."""
        self.occupancy.cut_off(slots)
        self.counters.abandoned += len(slots)

    # Pinning and recency

    def stamp(self, request_id: str, keys: Sequence[bytes]) -> list[bool]:
        """Stamp the blocks that are here as used by a request; tell which are."""
        found = self.table.index.get_many(keys)
        self.occupancy.policy.stamp(request_id, _each_once(found))
        return [slot is not None for slot in found]

    def pin(self, keys: Sequence[bytes]) -> list[int | None]:
        """Take a lease on each readable block, once for a key named twice; return their slots."""
        _, readable = self._examine(self.table.index.get_many(keys))
        self._hold_once(_each_once(readable))
        return readable

    def load(
        self, request_id: str, keys: Sequence[bytes], allowed_bytes: int = _ANY
    ) -> tuple[list[LookupResult.ValueType], list[int | None], int]:
        """Look up, pin what is readable, and stamp what is here.

        Returns:
            The result of each block, the slot of each that is pinned, and the bytes pinned.

        Raises:
            KvtierError: RESOURCE_EXHAUSTED when that is more bytes than the caller may pin.
        """
        found = self.table.index.get_many(keys)
        results, readable = self._examine(found)
        slots = _each_once(readable)
        pinned = self._bytes_of(slots)
        check_allowance(pinned, allowed_bytes, "leased")
        self._hold_once(slots)
        self.occupancy.policy.stamp(request_id, slots if readable is found else _each_once(found))
        return results, readable, pinned

    def keep(
        self, keys: Sequence[bytes], allowed_bytes: int
    ) -> tuple[list[LookupResult.ValueType], list[int | None], int]:
        """Look up, and pin for long what is readable; the rest is as for `load`."""
        results, readable = self._examine(self.table.index.get_many(keys))
        slots = _each_once(readable)
        pinned = self._bytes_of(slots)
        check_allowance(pinned, allowed_bytes, "pinned")
        self.occupancy.pin(slots)
        return results, readable, pinned

    # Removing

    def evict(self, count: int, spared: Sequence[int] = ()) -> list[tuple[Space, bytes]]:
        """Drop blocks that may go, sparing some slots; return what went, by space.

        A block that the tier below has too is not lost.
        """
        victims = [slot for _, slots in self.occupancy.choose(count, spared) for slot in slots]
        groups = self.table.by_origin(victims)
        gone = self.packed(groups)
        self.counters.removed += count
        self._announce_evicted(victims, gone)
        self.occupancy.take_out(groups)
        self.occupancy.free(victims)
        return [(origin.space, hashes) for origin, hashes in gone]

    def remove(self, slots: Sequence[int], reason: int) -> None:
        """Make readable blocks absent, and say so."""
        if slots:
            groups = self.table.by_origin(slots)
            self.announcer.removed(self.packed(groups), reason)
            self.drop(groups, slots)

    def drop_corrupt(self, slot: int) -> None:
        """Remove a block whose bytes do not match its checksum, if it is still there."""
        if self.table.state[slot] == READY:
            self.remove([slot], REMOVAL_REASON_CORRUPT)
            self.counters.corrupt += 1

    # Inside

    def _examine(
        self, found: list[int | None]
    ) -> tuple[list[LookupResult.ValueType], list[int | None]]:
        """Return the result of each block, and its slot where it is readable."""
        state = self.table.state
        slots = [slot for slot in found if slot is not None]
        if slots and len(slots) == gather(slots)(state).count(READY) == len(found):
            return [LOOKUP_RESULT_HIT] * len(found), found
        results = [
            LOOKUP_RESULT_MISS
            if slot is None
            else LOOKUP_RESULT_HIT
            if state[slot] == READY
            else LOOKUP_RESULT_HIT_PENDING
            for slot in found
        ]
        readable = [
            slot if result == LOOKUP_RESULT_HIT else None
            for slot, result in zip(found, results, strict=True)
        ]
        return results, readable

    def _hold_once(self, slots: Sequence[int]) -> None:
        self.counters.loaded += len(slots)
        self.occupancy.hold(slots)

    def _plan(self, runs: Sequence[Run]) -> Plan:
        plan = plan_offer(self.table, runs)
        return self.threshold.judge(plan) if self.threshold else plan

    def _bytes_of(self, slots: Sequence[int]) -> int:
        groups = self.table.by_origin(slots) if slots else ()
        return sum(origin.space.block_bytes * len(mine) for origin, mine in groups)

    def _missing_room(self, needed: int, residents: Sequence[int], in_hand: int = 0) -> int:
        may_go = evictable(self.occupancy, residents)
        missing = needed - self.table.free - in_hand
        if missing > may_go or needed > self.table.capacity:
            self.counters.refused += 1
            raise no_room(self.name, self.occupancy, needed, may_go)
        return missing

    def _announce_evicted(
        self, victims: Sequence[int], gone: Sequence[tuple[Origin, bytes]]
    ) -> None:
        below = self.below
        if below is None:
            self.counters.evicted += len(victims)
            self.announcer.removed(gone, REMOVAL_REASON_EVICTED)
            return
        held = [slot for slot in victims if below.holds(self.table.key[slot])]
        there = set(held)
        lost = [slot for slot in victims if slot not in there]
        self.counters.evicted += len(lost)
        self.counters.dropped += len(lost)
        self.counters.demoted += len(held)
        for slots, reason in ((held, REMOVAL_REASON_DEMOTED), (lost, REMOVAL_REASON_EVICTED)):
            if slots:
                self.announcer.removed(self.packed(self.table.by_origin(slots)), reason)

    def packed(self, groups: Groups) -> list[tuple[Origin, bytes]]:
        """Return the packed hashes of slots, by origin."""
        return [
            (origin, self.table.packed_hashes(slots, origin.space.width))
            for origin, slots in groups
        ]

    def drop(self, groups: Groups, slots: Sequence[int]) -> None:
        """Make readable blocks absent that somebody announced to be."""
        self.counters.removed += len(slots)
        self.occupancy.take_out(groups)
        self.occupancy.let_go(slots)

    def _stamp_offer(self, request_id: str, plan: Plan, slots: Sequence[int]) -> None:
        policy = self.occupancy.policy
        if not plan.residents and not plan.aliases:
            policy.stamp(request_id, slots)
            return
        written = dict(zip(plan.fresh, slots, strict=True))
        named = [
            written.get(place) if slot is None else slot
            for place, (slot, outcome) in enumerate(zip(plan.found, plan.outcomes, strict=True))
            if outcome != MISMATCH
        ]
        policy.stamp(request_id, _each_once(named))


def _each_once(slots: Sequence[int | None]) -> list[int]:
    there = [slot for slot in slots if slot is not None]
    return there if len(set(there)) == len(there) else list(dict.fromkeys(there))
