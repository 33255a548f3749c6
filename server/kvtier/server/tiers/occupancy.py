"""The life of a tier's slots: reserved, readable, leased, draining, free."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal

from kvtier.server.tiers.announce import Announcer
from kvtier.server.tiers.columns import gather
from kvtier.server.tiers.offer import Plan, Run
from kvtier.server.tiers.policy import Aged, Policy
from kvtier.server.tiers.spaces import Space, Spaces
from kvtier.server.tiers.table import (
    DOOMED,
    PENDING,
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
        copying: How often each slot is held by the node's own copies; these are in its leases too.
        pins: Number of pins on each readable block that has any, by slot.
        quarantined: Slots whose block is gone while a late writer may still be writing there.
        births: Number of stores so far; orders the blocks for listings.
        ready_bytes: Bytes of the tier's capacity that readable blocks take.
        leased_bytes: What those with a lease take of it; 0 where room is counted in slots.
        cost: Tells what a block of a space and an adapter takes of the tier's capacity, in bytes.
    """

    def __init__(
        self,
        table: BlockTable,
        policy: Policy,
        announcer: Announcer,
        spaces: Spaces,
        *,
        cost: Callable[[Space, str], int],
        discard: Callable[[Sequence[int]], None] | None,
    ) -> None:
        self.table = table
        self.policy = policy
        self._announcer = announcer
        self._spaces = spaces
        self._origins: dict[tuple[Space, str], Origin] = {}
        self.ready = self.leased = self.pending = self.draining = self.quarantined = 0
        self.copying: Counter[int] = Counter()
        self.pins: dict[int, int] = {}
        self.births = 0
        self.ready_bytes = self.leased_bytes = 0
        self.cost = cost
        self._discard = discard

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

    def enter_copies(self, source: BlockTable, pairs: Sequence[tuple[int, int]]) -> None:
        """Note the blocks that will be copied into slots, held by the copy.

        Args:
            source: The table of the tier that has the blocks.
            pairs: The slot there and the slot here of each.
        """
        into = dict(pairs)
        self.pending += len(into)
        for origin, slots in source.by_origin(list(into)):
            mine = self._origin(origin.space, origin.adapter_name)
            self._use(mine, len(slots))
            pick = gather(slots)
            here = list(map(into.__getitem__, slots))
            self.table.enter(here, pick(source.key), pick(source.parent), pick(source.start), mine)
            for slot in slots:
                if slot in source.token_ids:
                    self.table.token_ids[into[slot]] = source.token_ids[slot]
        self.copying.update(into.values())

    def enter_found(
        self,
        space: Space,
        adapter_name: str,
        hashes: Sequence[bytes],
        parents: Sequence[bytes],
        starts: Sequence[int],
    ) -> list[int]:
        """Note blocks that outlived the last process, as written and not readable yet.

        Args:
            space: The space of the blocks.
            adapter_name: The adapter's name.
            hashes: Their hashes; none of these blocks is in the table.
            parents: The hash of each one's parent; empty where it has none.
            starts: Where each starts, in tokens.

        Returns:
            Their slots, with one lease each.
        """
        origin, slots = self._origin(space, adapter_name), self.take(len(hashes))
        self.pending += len(slots)
        self._use(origin, len(slots))
        keys, shared = space.keys(hashes), space.namespace.starts
        known = dict(zip(hashes, keys, strict=True))
        self.table.enter(
            slots,
            keys,
            [
                known.get(parent) or (space.prefix + parent if parent else None)
                for parent in parents
            ],
            [shared(start, 1)[0] for start in starts],
            origin,
        )
        return slots

    def busy(self, slot: int) -> bool:
        """Tell whether a slot is held by anybody but the node's own copies."""
        return self.table.leases[slot] > self.copying.get(slot, 0)

    def hold_for_copy(self, slots: Sequence[int]) -> None:
        """Keep slots as they are while the node copies what is in them."""
        self.hold(slots)
        self.copying.update(slots)

    def end_copies(self, slots: Sequence[int]) -> None:
        """Note that copies hold slots no more; who calls lets go of the leases, too."""
        self.copying.subtract(slots)
        for slot in slots:
            if not self.copying[slot]:
                del self.copying[slot]

    def let_go_of_copies(self, slots: Sequence[int]) -> None:
        """Note that copies hold slots no more, and let go of the leases that were theirs."""
        self.end_copies(slots)
        self.unpin(slots)

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
        self._count_leased([slot for slot in slots if leases[slot]], 1)
        groups = self.table.by_origin(slots)
        for origin, members in groups:
            origin.ready += len(members)
            self.ready_bytes += origin.cost * len(members)
        self.policy.released(slots)
        return groups

    def choose(self, count: int, spared: Sequence[int] = ()) -> list[Aged]:
        """Choose readable blocks to go, never one of some slots; the policy forgets them."""
        if not spared:
            return self.policy.victims(count)
        leases = self.table.leases
        for slot in spared:
            leases[slot] += 1
        chosen = self.policy.victims(count)
        for slot in spared:
            leases[slot] -= 1
        self.policy.released([slot for slot in spared if not leases[slot]])
        return chosen

    def claim(self, count: int, spared: Sequence[int] = ()) -> list[Aged]:
        """Choose blocks to go, and hold them for a copy; a later stamp takes one back."""
        chosen = self.choose(count, spared)
        for _, slots in chosen:
            self.hold_for_copy(slots)
        return chosen

    def hold(self, slots: Sequence[int]) -> None:
        """Take a lease on slots that are in use."""
        if not slots:
            return
        leases = self.table.leases
        # A slot in use without a lease is readable: one that is written or draining has one.
        self._count_leased([slot for slot in slots if not leases[slot]], 1)
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
            self._count_leased([slot for slot in slots if not leases[slot]], -1)
        else:
            self._unpin_mixed([slot for slot in slots if not leases[slot]])
        self.policy.released(slots)

    def pin(self, slots: Sequence[int]) -> None:
        """Take a lease on readable blocks that is a pin."""
        self.hold(slots)
        for slot in slots:
            self.pins[slot] = self.pins.get(slot, 0) + 1

    def end_pin(self, slots: Sequence[int]) -> None:
        """End one pin on each slot, as `unpin` ends a lease."""
        for slot in slots:
            pins = self.pins.pop(slot, 0)
            if pins > 1:
                self.pins[slot] = pins - 1
        self.unpin(slots)

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
            self.ready_bytes -= origin.cost * len(slots)
            self.ready -= len(slots)

    def let_go(self, slots: Sequence[int]) -> None:
        """Free the slots of blocks that were taken out, leased ones with their last lease."""
        self.policy.forget(slots)
        leases = self.table.leases
        held = [slot for slot in slots if leases[slot]]
        self._count_leased(held, -1)
        if self.pins:
            for slot in held:
                self.pins.pop(slot, None)
        self._doom(held)
        self.free([slot for slot in slots if not leases[slot]] if held else slots)

    def free(self, slots: Sequence[int]) -> None:
        """Free slots that nothing holds."""
        if not slots:
            return
        if self._discard is not None:
            self._discard(slots)
        for origin, members in self.table.by_origin(slots):
            self.table.used_bytes -= origin.cost * len(members)
            origin.slots -= len(members)
            if not origin.slots:
                del self._origins[origin.space, origin.adapter_name]
            self._spaces.release(origin.space, len(members))
        self.table.give_back(slots)

    def _count_leased(self, slots: Sequence[int], sign: Literal[1, -1]) -> None:
        """Count readable blocks that have their first lease, or lost their last one."""
        self.leased += sign * len(slots)
        if self.table.room is not None:
            self.leased_bytes += sign * sum(self.table.origin[slot].cost for slot in slots)

    def _unpin_mixed(self, idle: Sequence[int]) -> None:
        state = self.table.state
        doomed = [slot for slot in idle if state[slot] == DOOMED]
        self._count_leased([slot for slot in idle if state[slot] == READY], -1)
        self.draining -= len(doomed)
        self.free(doomed)

    def _doom(self, slots: Sequence[int]) -> None:
        state = self.table.state
        if self._discard is not None:
            # Also from those who lease it: else a restart would bring it back. What is still being
            # written goes when that has ended.
            self._discard([slot for slot in slots if state[slot] != PENDING])
        for slot in slots:
            state[slot] = DOOMED
        self.draining += len(slots)

    def _enter_run(
        self, run: Run, keys: Sequence[bytes], chosen: Sequence[int], slots: Sequence[int]
    ) -> None:
        if not slots:
            return
        table = self.table
        origin = self._origin(run.space, run.adapter_name)
        self._use(origin, len(slots))
        parents: Sequence[bytes | None] = run.parents(keys)
        starts: Sequence[int] = run.starts()
        if len(chosen) < len(keys):
            pick = gather(chosen)
            keys, parents, starts = pick(keys), pick(parents), pick(starts)
        table.enter(slots, keys, parents, starts, origin)
        if run.token_ids and run.space.namespace.keep_token_ids:
            for i, slot in zip(chosen, slots, strict=True):
                table.token_ids[slot] = run.tokens_of(i)

    def _use(self, origin: Origin, blocks: int) -> None:
        origin.slots += blocks
        origin.space.uses += blocks
        self.table.used_bytes += origin.cost * blocks

    def _origin(self, space: Space, adapter_name: str) -> Origin:
        origin = self._origins.get((space, adapter_name))
        if origin is None:
            origin = self._announcer.new_origin(space, adapter_name)
            origin.cost = self.cost(space, adapter_name)
            self._origins[space, adapter_name] = origin
        return origin
