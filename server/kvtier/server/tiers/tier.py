"""A tier: what every kind of storage has in common."""

from collections.abc import Sequence

from kvtier.server.clock import Clock
from kvtier.server.stores.base import BlockStore
from kvtier.server.tiers.announce import Announcer
from kvtier.server.tiers.columns import gather
from kvtier.server.tiers.counters import Counters
from kvtier.server.tiers.occupancy import Occupancy
from kvtier.server.tiers.offer import MISMATCH, Plan, Reservation, Run, plan_offer
from kvtier.server.tiers.policies import make_policy
from kvtier.server.tiers.policy import Columns, Stamps
from kvtier.server.tiers.spaces import NamespaceInfo, Space, Spaces
from kvtier.server.tiers.table import PENDING, READY, WRITTEN, BlockTable, Groups, Origin
from kvtier.v1.block_pb2 import (
    REMOVAL_REASON_CORRUPT,
    REMOVAL_REASON_DELETED,
    REMOVAL_REASON_EVICTED,
)
from kvtier.v1.result_pb2 import (
    DELETE_RESULT_BUSY,
    DELETE_RESULT_DELETED,
    DELETE_RESULT_NOT_FOUND,
    LOOKUP_RESULT_HIT,
    LOOKUP_RESULT_HIT_PENDING,
    LOOKUP_RESULT_MISS,
    DeleteResult,
    LookupResult,
)
from kvtier.wire.errors import Reason, exhausted, failed_precondition
from kvtier.wire.sizes import format_size

_RETRY_WHEN_FULL = 0.1
_ANY = 1 << 63


class Tier:
    """One store of blocks: bytes in slots, a block table, a policy, and its own events.

    All methods are bookkeeping: they run on the event loop, never wait and do no I/O. Bytes are
    moved by whoever holds slots, at `position_of`.

    Attributes:
        name: The tier's name.
        store: Where the bytes are.
        policy_name: The replacement policy's name.
        announcer: The tier's own events.
        slot_bytes: Bytes per slot; 0 until the first namespace fixes it.
        occupancy: The slots' states and counts.
        counters: What happened since the start.
    """

    def __init__(
        self,
        name: str,
        store: BlockStore,
        *,
        policy_name: str,
        announcer: Announcer,
        spaces: Spaces,
        stamps: Stamps,
        clock: Clock,
    ) -> None:
        self.name = name
        self.store = store
        self.policy_name = policy_name
        self.announcer = announcer
        self._spaces = spaces
        self._stamps = stamps
        self._clock = clock
        self.counters = Counters()
        self.slot_bytes = 0
        self.occupancy = self._lay_out(0)

    def fix_slots(self, slot_bytes: int) -> None:
        """Divide the capacity into slots; only while the tier has none."""
        assert not self.slot_bytes
        self.slot_bytes = slot_bytes
        self.occupancy = self._lay_out(self.store.capacity_bytes // slot_bytes)

    def _lay_out(self, capacity: int) -> Occupancy:
        table = BlockTable(capacity)
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
        plan = plan_offer(self.table, runs)
        needed = plan.fresh_bytes()
        self._check_bytes(needed, allowed_bytes)
        missing = self._missing_room(len(plan.fresh), plan.residents)
        self.counters.mismatched += plan.outcomes.count(MISMATCH)
        evicted = self._evict(missing, request_id, plan.residents) if missing > 0 else []
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
        pinned = 0
        for origin, mine in self.table.by_origin(slots) if slots else ():
            pinned += origin.space.block_bytes * len(mine)
        self._check_bytes(pinned, allowed_bytes)
        self._hold_once(slots)
        self.occupancy.policy.stamp(request_id, slots if readable is found else _each_once(found))
        return results, readable, pinned

    # Removing

    def delete(self, keys: Sequence[bytes], *, force: bool) -> list[DeleteResult.ValueType]:
        """Remove blocks; return the `DeleteResult` of each."""
        found = self.table.index.get_many(keys)
        leases, state = self.table.leases, self.table.state
        busy = {slot for slot in found if slot is not None and leases[slot] and not force}
        going = [slot for slot in dict.fromkeys(found) if slot is not None and slot not in busy]
        written = [slot for slot in going if state[slot] in {PENDING, WRITTEN}]
        self._remove([s for s in going if state[s] == READY], REMOVAL_REASON_DELETED)
        self.cut_off(written)
        return [
            DELETE_RESULT_NOT_FOUND
            if slot is None
            else DELETE_RESULT_BUSY
            if slot in busy
            else DELETE_RESULT_DELETED
            for slot in found
        ]

    def drop_corrupt(self, slot: int) -> None:
        """Remove a block whose bytes do not match its checksum, if it is still there."""
        if self.table.state[slot] == READY:
            self._remove([slot], REMOVAL_REASON_CORRUPT)
            self.counters.corrupt += 1

    def check_clear(self, namespace: NamespaceInfo | None) -> None:
        """Raise FAILED_PRECONDITION when a clear would meet blocks under load leases."""
        if not self.occupancy.leased:
            return
        leases = self.table.leases
        busy = sum(1 for slot in self._ready_slots(namespace) if leases[slot])
        if busy:
            raise failed_precondition(
                f"{busy} blocks of tier {self.name} are under load leases: wait, release them, or "
                "clear with force",
                Reason.BLOCKS_LEASED,
                {"leased_blocks": str(busy)},
            )

    def clear(self, namespace: NamespaceInfo | None) -> int:
        """Remove every readable block, or those of one namespace; return how many there were."""
        slots = self._ready_slots(namespace)
        if slots:
            self.announcer.cleared(namespace.fingerprint if namespace else b"")
            self._drop(self.table.by_origin(slots), slots)
        return len(slots)

    # Inside

    def _ready_slots(self, namespace: NamespaceInfo | None) -> list[int]:
        table = self.table
        slots = [slot for slot, state in enumerate(table.state) if state == READY]
        if namespace is None:
            return slots
        return [slot for slot in slots if table.origin[slot].space.namespace is namespace]

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

    def _check_bytes(self, needed: int, allowed: int) -> None:
        if needed > allowed:
            raise exhausted(
                f"the lease would hold {format_size(needed)}, and this owner's leases may hold "
                f"{format_size(max(0, allowed))} more: complete or release some, or raise "
                "limits.leased_bytes_per_owner",
                Reason.LEASE_LIMIT,
                retry_after=_RETRY_WHEN_FULL,
            )

    def _missing_room(self, needed: int, residents: Sequence[int]) -> int:
        table, occupancy = self.table, self.occupancy
        leases, state = table.leases, table.state
        kept = sum(1 for slot in residents if state[slot] == READY and not leases[slot])
        evictable = occupancy.ready - occupancy.leased - kept
        missing = needed - table.free
        if needed > table.capacity:
            self.counters.refused += 1
            raise exhausted(
                f"tier {self.name} has {table.capacity} slots and can never take {needed} blocks "
                "at once: offer fewer, or enlarge the tier",
                Reason.TIER_FULL,
            )
        if missing > evictable:
            self.counters.refused += 1
            raise exhausted(
                f"tier {self.name} has no room for {needed} blocks: of its {table.capacity} slots "
                f"{table.free} are free and {evictable} may be evicted; {occupancy.leased} are "
                f"leased, {occupancy.pending} being written, {occupancy.draining} draining, "
                f"{occupancy.quarantined} quarantined",
                Reason.TIER_FULL,
                retry_after=_RETRY_WHEN_FULL,
                metadata={
                    "leased_blocks": str(occupancy.leased),
                    "pending_blocks": str(occupancy.pending),
                    "draining_blocks": str(occupancy.draining),
                    "quarantined_blocks": str(occupancy.quarantined),
                },
            )
        return missing

    def _evict(
        self, count: int, request_id: str, residents: Sequence[int]
    ) -> list[tuple[Space, bytes]]:
        """Make room, sparing the offer's own blocks; return what went, by space."""
        table, policy = self.table, self.occupancy.policy
        policy.stamp(request_id, ())
        if residents:
            self._guard(residents, 1)
        victims = [slot for _, slots in policy.victims(count) for slot in slots]
        if residents:
            self._guard(residents, -1)
        groups = table.by_origin(victims)
        gone = self._packed(groups)
        self.counters.evicted += count
        self.counters.removed += count
        self.announcer.removed(gone, REMOVAL_REASON_EVICTED)
        self.occupancy.take_out(groups)
        self.occupancy.free(victims)
        return [(origin.space, hashes) for origin, hashes in gone]

    def _guard(self, slots: Sequence[int], change: int) -> None:
        leases = self.table.leases
        for slot in slots:
            leases[slot] += change
        self.occupancy.policy.released([slot for slot in slots if not leases[slot]])

    def _packed(self, groups: Groups) -> list[tuple[Origin, bytes]]:
        return [
            (origin, self.table.packed_hashes(slots, origin.space.width))
            for origin, slots in groups
        ]

    def _remove(self, slots: Sequence[int], reason: int) -> None:
        if slots:
            groups = self.table.by_origin(slots)
            self.announcer.removed(self._packed(groups), reason)
            self._drop(groups, slots)

    def _drop(self, groups: Groups, slots: Sequence[int]) -> None:
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
