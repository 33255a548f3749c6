"""The life of a tier's slots: reserved, readable, leased, draining, free."""

from bisect import bisect_left
from collections.abc import Sequence

from kvtier.server.tiers.announce import Announcer
from kvtier.server.tiers.columns import gather
from kvtier.server.tiers.offer import Plan, Run
from kvtier.server.tiers.policy import Policy
from kvtier.server.tiers.spaces import Space, Spaces
from kvtier.server.tiers.table import (
    DOOMED,
    READY,
    Birth,
    BlockTable,
    Groups,
    Origin,
)


class Occupancy:
    """Moves slots from one state to the next and keeps the counts.

    A slot is freed when its block is gone and nothing holds it: no lease, and no copy under way.

    Attributes:
        table: The columns.
        policy: Told of every slot that leaves, and of every lease that ends.
        ready: Readable blocks.
        leased: Readable blocks with a lease.
        pending: Slots that are being written.
        draining: Slots whose block is gone while something still holds them.
        quarantined: Slots whose block is gone while a late writer may still be writing there.
        births: Number of stores so far; orders the blocks for listings.
    """

    def __init__(
        self, table: BlockTable, policy: Policy, announcer: Announcer, spaces: Spaces
    ) -> None:
        self.table = table
        self.policy = policy
        self._announcer = announcer
        self._spaces = spaces
        self._origins: dict[tuple[Space, str], Origin] = {}
        self.ready = self.leased = self.pending = self.draining = self.quarantined = 0
        self.births = 0

    def ready_blocks(self, namespaces: frozenset[bytes] | None) -> int:
        """Return the number of readable blocks, over all or some namespaces."""
        if namespaces is None:
            return self.ready
        return sum(
            origin.ready
            for origin in self._origins.values()
            if origin.space.namespace.fingerprint in namespaces
        )

    def take(self, count: int) -> list[int]:
        """Take `count` free slots; the caller knows that there are so many."""
        laid_out = len(self.table)
        slots = self.table.take(count)
        if len(self.table) != laid_out:
            self.policy.grow(len(self.table))
        return slots

    def enter(self, plan: Plan, slots: Sequence[int]) -> None:
        """Note the blocks that will be written into slots, with one lease each."""
        self.pending += len(slots)
        if len(plan.runs) == 1:
            self._enter_run(plan.runs[0], plan.keys, plan.fresh, slots)
            return
        first = taken = 0
        for run in plan.runs:
            end = first + len(run.hashes)
            to = bisect_left(plan.fresh, end, taken)
            chosen = [place - first for place in plan.fresh[taken:to]]
            self._enter_run(run, plan.keys[first:end], chosen, slots[taken:to])
            first, taken = end, to

    def make_ready(self, slots: Sequence[int], now: float) -> Groups:
        """Make written slots readable and end their leases; return them by origin."""
        state, birth, leases = self.table.state, self.table.birth, self.table.leases
        self.births += 1
        born = Birth(self.births, now)
        for slot in slots:
            state[slot] = READY
            birth[slot] = born
            leases[slot] -= 1
        self.pending -= len(slots)
        self.ready += len(slots)
        self.leased += len(slots) - gather(slots)(leases).count(0)
        groups = self.table.by_origin(slots)
        for origin, members in groups:
            origin.ready += len(members)
        self.policy.released(slots)
        return groups

    def hold(self, slots: Sequence[int]) -> None:
        """Take a lease on slots that are in use."""
        if not slots:
            return
        leases, pick = self.table.leases, gather(slots)
        # A slot in use without a lease is readable: one that is written or draining has one.
        self.leased += pick(leases).count(0)
        for slot in slots:
            leases[slot] += 1

    def unpin(self, slots: Sequence[int]) -> None:
        """End one lease on each slot; a slot whose block is gone is freed with the last."""
        if not slots:
            return
        leases, state, pick = self.table.leases, self.table.state, gather(slots)
        for slot in slots:
            leases[slot] -= 1
        if pick(state).count(READY) == len(slots):
            self.leased -= pick(leases).count(0)
        else:
            self._unpin_mixed([slot for slot in slots if not leases[slot]])
        self.policy.released(slots)

    def cut_off(self, slots: Sequence[int]) -> None:
        """Take blocks that are being written away from their writers."""
        if not slots:
            return
        self.table.index.drop_many(self.table.keys_of(slots))
        self.policy.forget(slots)
        self.pending -= len(slots)
        self._doom(slots)

    def quarantine(self, slots: Sequence[int]) -> None:
        """Count slots that a gone writer's lease holds as quarantined, until it is let go."""
        self.draining -= len(slots)
        self.quarantined += len(slots)

    def end_quarantine(self, slots: Sequence[int]) -> None:
        """End the lease that a gone writer had on each of these slots."""
        self.quarantined -= len(slots)
        self.draining += len(slots)
        self.unpin(slots)

    def take_out(self, groups: Groups) -> None:
        """Make readable blocks absent: from here on nobody finds them."""
        for origin, slots in groups:
            self.table.index.drop_many(self.table.keys_of(slots))
            origin.ready -= len(slots)
            self.ready -= len(slots)

    def let_go(self, slots: Sequence[int]) -> None:
        """Free the slots of blocks that were taken out, leased ones with their last lease."""
        self.policy.forget(slots)
        leases = self.table.leases
        held = [slot for slot in slots if leases[slot]]
        self.leased -= len(held)
        self._doom(held)
        self.free([slot for slot in slots if not leases[slot]] if held else slots)

    def free(self, slots: Sequence[int]) -> None:
        """Free slots that nothing holds."""
        if not slots:
            return
        for origin, members in self.table.by_origin(slots):
            origin.slots -= len(members)
            if not origin.slots:
                del self._origins[origin.space, origin.adapter_name]
            self._spaces.release(origin.space, len(members))
        self.table.give_back(slots)

    def _unpin_mixed(self, idle: Sequence[int]) -> None:
        state = self.table.state
        doomed = [slot for slot in idle if state[slot] == DOOMED]
        self.leased -= sum(1 for slot in idle if state[slot] == READY)
        self.draining -= len(doomed)
        self.free(doomed)

    def _doom(self, slots: Sequence[int]) -> None:
        for slot in slots:
            self.table.state[slot] = DOOMED
        self.draining += len(slots)

    def _enter_run(
        self, run: Run, keys: Sequence[bytes], chosen: Sequence[int], slots: Sequence[int]
    ) -> None:
        if not slots:
            return
        table = self.table
        origin = self._origin(run.space, run.adapter_name)
        origin.slots += len(slots)
        run.space.uses += len(slots)
        parents: Sequence[bytes | None] = run.parents(keys)
        starts: Sequence[int] = run.starts()
        if len(chosen) < len(keys):
            pick = gather(chosen)
            keys, parents, starts = pick(keys), pick(parents), pick(starts)
        table.enter(slots, keys, parents, starts, origin)
        if run.token_ids and run.space.namespace.keep_token_ids:
            for i, slot in zip(chosen, slots, strict=True):
                table.token_ids[slot] = run.tokens_of(i)

    def _origin(self, space: Space, adapter_name: str) -> Origin:
        origin = self._origins.get((space, adapter_name))
        if origin is None:
            origin = self._announcer.new_origin(space, adapter_name)
            self._origins[space, adapter_name] = origin
        return origin
