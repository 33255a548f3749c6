"""A tier: what every kind of storage has in common."""

from collections.abc import Sequence

from kvtier.server.clock import Clock
from kvtier.server.lasting.health import Health
from kvtier.server.lasting.store import LastingStore
from kvtier.server.stores.base import BlockStore
from kvtier.server.tiers.allowance import check_allowance
from kvtier.server.tiers.announce import Announcer
from kvtier.server.tiers.counters import Counters, Tally
from kvtier.server.tiers.eviction import evict
from kvtier.server.tiers.keeping import LONGEST_NAME, LONGEST_SCOPE, Keeping
from kvtier.server.tiers.occupancy import Occupancy
from kvtier.server.tiers.offer import MISMATCH, Plan, Reservation, Run, plan_offer
from kvtier.server.tiers.policies import make_policy
from kvtier.server.tiers.policy import Columns, Stamps
from kvtier.server.tiers.results import each_once, examine
from kvtier.server.tiers.room import can_ever_free, evictable, lacking, no_room
from kvtier.server.tiers.spaces import NamespaceInfo, Space, Spaces
from kvtier.server.tiers.spare import divide
from kvtier.server.tiers.table import READY, WRITTEN, BlockTable, ByteRoom, Groups, Origin
from kvtier.server.tiers.threshold import Threshold
from kvtier.v1.block_pb2 import REMOVAL_REASON_CORRUPT, REMOVAL_REASON_LOST, Locality
from kvtier.v1.result_pb2 import LookupResult

_ANY = 1 << 63


class Tier:
    """One store of blocks: bytes in slots, a block table, a policy, and its own events.

    All methods are bookkeeping: they run on the event loop, never wait and do no I/O. Bytes are
    moved by whoever holds slots: at `position_of` in the arena, or through `keeping`.

    Attributes:
        name: The tier's name.
        store: Where the bytes are.
        keeping: What is beside the table where blocks are files or objects; None in memory.
        health: The tier's condition.
        policy_name: The replacement policy's name.
        threshold: Defers blocks that were not offered often enough; None stores all at once.
        announcer: The tier's own events.
        capacity_bytes: Bytes for blocks; the store has a few spare slots beyond them where blocks
            change places with those of another tier.
        below: The tier that evicted blocks go to.
        slot_bytes: Bytes per slot; 0 until the first namespace fixes it. Where room is counted in
            bytes, what the largest block takes.
        occupancy: The slots' states and counts.
        counters: What happened since the start.
        tally: What else happened.
    """

    def __init__(
        self,
        name: str,
        store: BlockStore | LastingStore,
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
        self.keeping = Keeping(name, store) if isinstance(store, LastingStore) else None
        self.health = self.keeping.store.health if self.keeping else Health(recovering=False)
        self.capacity_bytes = capacity_bytes
        self.below: Tier | None = None
        self.policy_name = policy_name
        self.threshold = threshold
        self.announcer = announcer
        self._spaces = spaces
        self._stamps = stamps
        self._clock = clock
        self.counters = Counters()
        self.tally = Tally()
        self.slot_bytes = 0
        self.occupancy = self._lay_out(0, 0)

    def admit(self, namespace: NamespaceInfo) -> None:
        """Make ready for blocks of a namespace, if they fit the tier at all."""
        largest = self._largest_of(namespace)
        if not largest:
            return
        room = self.table.room
        if not self.slot_bytes:
            self.fix_slots(largest)
        elif room is not None and largest > room.largest:
            self.slot_bytes = room.largest = largest
            self.table.capacity = room.capacity_bytes // largest

    def takes(self, space: Space, adapter_name: str) -> bool:
        """Tell whether blocks of a space and an adapter are small enough for the tier."""
        size = self._cost(space, adapter_name) if self.keeping else space.block_bytes
        return size <= self.slot_bytes

    def fix_slots(self, slot_bytes: int) -> None:
        """Divide the capacity into slots; only while the tier has none."""
        assert not self.slot_bytes
        self.slot_bytes = slot_bytes
        self.occupancy = self._lay_out(
            *divide(self.capacity_bytes, self.store.capacity_bytes, slot_bytes)
        )

    def _largest_of(self, namespace: NamespaceInfo) -> int:
        """Return what the largest blocks take that the tier can have; 0 when it can have none."""
        costs = [
            self._cost(Space(namespace, group, LONGEST_SCOPE, b""), LONGEST_NAME)
            for group in range(len(namespace.block_bytes))
        ]
        if self.keeping is None:
            # Slots of one size are for all groups or none.
            costs = [max(costs)]
        return max((cost for cost in costs if not 0 < self.capacity_bytes < cost), default=0)

    def _lay_out(self, capacity: int, spare: int) -> Occupancy:
        keeping = self.keeping
        room = ByteRoom(self.capacity_bytes, max(1, self.slot_bytes)) if keeping else None
        table = BlockTable(capacity, spare, room)
        if keeping:
            keeping.table = table
            table.used_bytes = keeping.strange_bytes
        columns = Columns(capacity, table.key, table.start, table.leases)
        policy = make_policy(self.policy_name, columns, self._stamps)
        return Occupancy(
            table,
            policy,
            self.announcer,
            self._spaces,
            cost=self._cost,
            discard=keeping.discard if keeping else None,
        )

    def _cost(self, space: Space, adapter_name: str) -> int:
        """Return the bytes that a block takes of the capacity."""
        if self.keeping:
            return self.keeping.cost(space, adapter_name)
        return self.slot_bytes or space.block_bytes

    @property
    def accepts(self) -> bool:
        """Whether blocks can be written and removed now."""
        return self.health.accepts

    @property
    def removes(self) -> bool:
        """Whether blocks can be removed now; also where there is no room for more."""
        return self.health.removes

    @property
    def locality(self) -> Locality.ValueType:
        """Where the bytes are, seen from the node."""
        return self.keeping.store.locality if self.keeping else Locality.LOCALITY_LOCAL

    @property
    def arena(self) -> BlockStore:
        """The memory of a tier that has no `keeping`."""
        assert not isinstance(self.store, LastingStore), f"tier {self.name} is not in memory"
        return self.store

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
        results, _ = examine(self.table, self.table.index.get_many(keys))
        return results

    # Storing

    def shortage(
        self, request_id: str, runs: Sequence[Run], allowed_bytes: int, in_hand: Sequence[int]
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
        missing = self._missing_room(plan, in_hand)
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
        missing = self._missing_room(plan)
        if self.threshold:
            self.counters.deferred += self.threshold.count(plan)
        self.counters.mismatched += plan.outcomes.count(MISMATCH)
        evicted: list[tuple[Space, bytes]] = []
        if missing > 0:
            self.occupancy.policy.expect(request_id, plan.residents, plan.fresh_keys())
            while missing > 0:
                evicted += evict(self, missing, plan.residents)
                missing = self._missing_room(plan)
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
        self.occupancy.policy.stamp(request_id, each_once(found))
        return [slot is not None for slot in found]

    def pin(self, keys: Sequence[bytes]) -> tuple[list[LookupResult.ValueType], list[int | None]]:
        """Take a lease on each readable block, once for a key named twice.

        Returns:
            The result of each block, and the slot of each that is readable.
        """
        results, readable = examine(self.table, self.table.index.get_many(keys))
        self._hold_once(each_once(readable))
        return results, readable

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
        results, readable = examine(self.table, found)
        slots = each_once(readable)
        pinned = self._bytes_of(slots)
        check_allowance(pinned, allowed_bytes, "leased")
        self._hold_once(slots)
        self.occupancy.policy.stamp(request_id, slots if readable is found else each_once(found))
        return results, readable, pinned

    def keep(
        self, keys: Sequence[bytes], allowed_bytes: int
    ) -> tuple[list[LookupResult.ValueType], list[int | None], int]:
        """Look up, and pin for long what is readable; the rest is as for `load`."""
        results, readable = examine(self.table, self.table.index.get_many(keys))
        slots = each_once(readable)
        pinned = self._bytes_of(slots)
        check_allowance(pinned, allowed_bytes, "pinned")
        self.occupancy.pin(slots)
        return results, readable, pinned

    # Removing

    def remove(self, slots: Sequence[int], reason: int) -> None:
        """Make readable blocks absent, and say so."""
        if slots:
            groups = self.table.by_origin(slots)
            self.announcer.removed(self.packed(groups), reason)
            self.drop(groups, slots, reason)

    def drop_corrupt(self, slot: int) -> None:
        """Remove a block whose bytes do not match its checksum, if it is still there."""
        if self.table.state[slot] == READY:
            self.remove([slot], REMOVAL_REASON_CORRUPT)
            self.counters.corrupt += 1

    def drop_lost(self, slot: int) -> None:
        """Remove a block whose bytes have vanished, if it is still there."""
        if self.table.state[slot] == READY:
            self.remove([slot], REMOVAL_REASON_LOST)
            self.counters.lost += 1

    # Inside

    def _hold_once(self, slots: Sequence[int]) -> None:
        self.counters.loaded += len(slots)
        self.occupancy.hold(slots)

    def _plan(self, runs: Sequence[Run]) -> Plan:
        plan = plan_offer(self.table, runs)
        return self.threshold.judge(plan) if self.threshold else plan

    def _bytes_of(self, slots: Sequence[int]) -> int:
        groups = self.table.by_origin(slots) if slots else ()
        return sum(origin.space.block_bytes * len(mine) for origin, mine in groups)

    def _missing_room(self, plan: Plan, in_hand: Sequence[int] = ()) -> int:
        """Return how many blocks must go; where room is counted in bytes, at least so many."""
        needed = len(plan.fresh)
        may_go = evictable(self.occupancy, plan.residents)
        if self.table.room is None:
            missing = needed - self.table.free - len(in_hand)
            possible = missing <= may_go and needed <= self.table.capacity
        else:
            size = plan.total(lambda run: self._cost(run.space, run.adapter_name))
            missing = lacking(self.occupancy, [size], in_hand)
            possible = missing <= 0 or can_ever_free(self.occupancy, size, plan.residents)
        if not possible:
            self.counters.refused += 1
            raise no_room(self.name, self.occupancy, needed, may_go)
        return missing

    def packed(self, groups: Groups) -> list[tuple[Origin, bytes]]:
        """Return the packed hashes of slots, by origin."""
        return [
            (origin, self.table.packed_hashes(slots, origin.space.width))
            for origin, slots in groups
        ]

    def drop(self, groups: Groups, slots: Sequence[int], reason: int) -> None:
        """Make readable blocks absent that somebody announced to be."""
        self.counters.removed += len(slots)
        self.tally.removals[reason] += len(slots)
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
        policy.stamp(request_id, each_once(named))
