"""Least recently used, by request: the tail of the oldest request goes first."""

from array import array
from bisect import insort
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from operator import lt

from kvtier.server.tiers.columns import gather
from kvtier.server.tiers.policy import Age, Aged, Columns, Stamps

# No stamp.
_NOT = -1


class _Group:
    """The slots that one request stamped last, by ascending position.

    A slot that another group stamped since stays in `slots` as a dead entry until the group is
    compacted. A leased slot that stood in the way of an eviction is parked: its owner is still the
    group, but it is in `slots` no more.
    """

    __slots__ = ("dead", "name", "parked", "queued", "slots", "stamp")

    def __init__(self, name: str, stamp: int) -> None:
        self.name = name
        self.slots: list[int] = []
        self.dead = 0
        self.parked = 0
        self.queued = _NOT
        self.stamp = stamp


class LruPolicy:
    """Groups in order of their last stamp; eviction takes the last position of the oldest group.

    Every operation is O(1) amortised for each slot it names. A group that lost all its candidates
    while leased ones are parked leaves the order; when a lease ends it comes back at the age that
    it had, through a small heap, and not through a search. So does a group of which copies entered.
    """

    def __init__(self, columns: Columns, stamps: Stamps) -> None:
        self._starts = columns.starts
        self._leases = columns.leases
        self._stamps = stamps
        self._owner: list[_Group | None] = []
        self._named: dict[str, _Group] = {}
        self._order: OrderedDict[_Group, None] = OrderedDict()
        # By stamp, and by a number: a group that came back may be as old as one that has gone.
        self._returned: list[tuple[int, int, _Group]] = []
        self._parked: set[int] = set()
        self._joined = array("Q")
        self._joins = self._queued = 0

    def grow(self, slots: int) -> None:
        """Note that the columns have this many slots now."""
        added = slots - len(self._owner)
        self._owner += [None] * added
        self._joined.frombytes(bytes(8 * added))

    def stamp(self, request_id: str, slots: Sequence[int]) -> None:
        """Move slots into the request's group, and the group to the front, also without slots."""
        if slots or request_id in self._named:
            self.renew(self._stamps.age(request_id), slots)

    def expect(
        self,
        request_id: str,
        residents: Sequence[int],  # noqa: ARG002 - the interface's
        keys: Sequence[bytes],  # noqa: ARG002 - the interface's
    ) -> None:
        """Move the request's group to the front: it goes last while room is made for more."""
        self.stamp(request_id, ())

    def renew(self, age: Age, slots: Sequence[int]) -> None:
        """Move slots into the group of a new stamp, and the group to the front."""
        group = self._named.get(age.group)
        if group is None:
            if not slots:
                return
            group = self._new_group(*age)
        group.stamp = age.stamp
        self._join(group, slots)
        if group.slots:
            self._order[group] = None
            self._order.move_to_end(group)

    def enter(self, age: Age, slots: Sequence[int]) -> None:
        """Take in slots that hold copies of blocks of this age, which nobody used by that."""
        group = self._named.get(age.group) or self._new_group(*age)
        self._join(group, slots)
        self._queue(group)

    def ages(self, slots: Sequence[int]) -> list[Aged]:
        """Return the age of slots, in the order of first appearance, without those not known."""
        groups: dict[_Group, list[int]] = {}
        for slot in slots:
            group = self._owner[slot]
            if group is not None:
                groups.setdefault(group, []).append(slot)
        return [(Age(group.name, group.stamp), some) for group, some in groups.items()]

    def members(self, request_id: str, slots: Sequence[int]) -> list[int]:
        """Return those of the slots that this request stamped last."""
        group = self._named.get(request_id)
        return [] if group is None else [slot for slot in slots if self._owner[slot] is group]

    def victims(self, count: int) -> list[Aged]:
        """Take `count` unleased slots from the tails of the oldest groups."""
        taken = self.take(count)
        assert sum(len(slots) for _, slots in taken) == count, "there are not so many victims"
        return taken

    def take(self, count: int) -> list[Aged]:
        """Take up to `count` unleased slots from the tails of the oldest groups."""
        taken: list[Aged] = []
        missing = count
        while missing and (group := self._oldest()) is not None:
            chosen = self._take_clean_tail(group, missing) or self._take_one_by_one(group, missing)
            if chosen:
                taken.append((Age(group.name, group.stamp), chosen))
                missing -= len(chosen)
            if len(group.slots) == group.dead:
                self._retire(group)
        return taken

    def forget(self, slots: Sequence[int]) -> None:
        """Drop slots from their groups."""
        if slots:
            self._move(slots, None)

    def released(self, slots: Sequence[int]) -> None:
        """Give parked slots back to their groups, which regain their age."""
        if not self._parked:
            return
        for slot in self._parked.intersection(slots):
            if self._leases[slot]:
                continue
            group = self._owner[slot]
            assert group is not None
            self._parked.discard(slot)
            group.parked -= 1
            if group.dead:
                self._compact(group)
            insort(group.slots, slot, key=self._place)
            self._queue(group)

    def _oldest(self) -> _Group | None:
        returned = self._returned
        while returned:
            stamp, _, group = returned[0]
            if group.stamp == stamp and group.slots and group not in self._order:
                break
            heappop(returned)
            if group.queued == stamp:
                group.queued = _NOT
        oldest = next(iter(self._order), None)
        if returned and (oldest is None or returned[0][0] < oldest.stamp):
            return returned[0][2]
        return oldest

    def _take_clean_tail(self, group: _Group, count: int) -> list[int]:
        tail = group.slots[-count:]
        if group.dead or any(gather(tail)(self._leases)):
            return []
        del group.slots[-count:]
        for slot in tail:
            self._owner[slot] = None
        tail.reverse()
        return tail

    def _take_one_by_one(self, group: _Group, count: int) -> list[int]:
        chosen: list[int] = []
        while group.slots and len(chosen) < count:
            slot = group.slots.pop()
            if self._owner[slot] is not group:
                group.dead -= 1
            elif self._leases[slot]:
                self._parked.add(slot)
                group.parked += 1
            else:
                self._owner[slot] = None
                chosen.append(slot)
        return chosen

    def _queue(self, group: _Group) -> None:
        """Let a group with candidates go at its age, when it is not in the order."""
        if group.slots and group not in self._order and group.queued != group.stamp:
            group.queued = group.stamp
            self._queued += 1
            heappush(self._returned, (group.stamp, self._queued, group))

    def _new_group(self, name: str, stamp: int) -> _Group:
        group = self._named[name] = _Group(name, stamp)
        return group

    def _join(self, group: _Group, slots: Sequence[int]) -> None:
        owner = self._owner
        fresh: Sequence[int] = slots
        if group.slots or group.parked:
            fresh = [slot for slot in slots if owner[slot] is not group]
        if fresh:
            if group.dead:
                self._compact(group)
            self._move(fresh, group)
            self._insert(group, fresh)

    def _insert(self, group: _Group, fresh: Sequence[int]) -> None:
        positions = gather(fresh)(self._starts)
        last = self._starts[group.slots[-1]] if group.slots else -1
        group.slots += fresh
        if last < positions[0] and all(map(lt, positions, positions[1:])) and not group.parked:
            return
        # Only a slot that may share its position with one before it needs a number of its own.
        for slot in fresh:
            self._joins += 1
            self._joined[slot] = self._joins
        group.slots.sort(key=self._starts.__getitem__)

    def _place(self, slot: int) -> tuple[int, int]:
        """Return what orders a group: the position, then who joined first."""
        return self._starts[slot], self._joined[slot]

    def _move(self, slots: Sequence[int], target: _Group | None) -> None:
        """Give slots another owner; what is left of them in their old groups is dead."""
        owner = self._owner
        if self._parked:
            self._unpark_dead(slots)
        owners = gather(slots)(owner)
        for slot in slots:
            owner[slot] = target
        for group, lost in _count(owners):
            if group is None:
                continue
            group.dead += lost
            if group.dead * 2 > len(group.slots):
                self._compact(group)
                if not group.slots:
                    self._retire(group)

    def _unpark_dead(self, slots: Sequence[int]) -> None:
        for slot in self._parked.intersection(slots):
            group = self._owner[slot]
            assert group is not None
            self._parked.discard(slot)
            group.parked -= 1
            group.slots.append(slot)

    def _compact(self, group: _Group) -> None:
        owner = self._owner
        group.slots = [slot for slot in group.slots if owner[slot] is group]
        group.dead = 0

    def _retire(self, group: _Group) -> None:
        """Take a group without candidates out of the order; forget it unless some are parked."""
        group.slots, group.dead = [], 0
        self._order.pop(group, None)
        if not group.parked and self._named.get(group.name) is group:
            del self._named[group.name]


def _count(owners: Sequence[_Group | None]) -> Iterable[tuple[_Group | None, int]]:
    """Count each owner; blocks that are stamped together mostly have one."""
    if owners.count(owners[0]) == len(owners):
        return ((owners[0], len(owners)),)
    return Counter(owners).items()
