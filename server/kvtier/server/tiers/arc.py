"""ARC (Megiddo and Modha, FAST 2003): blocks seen once, blocks seen again, and a learnt balance."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from kvtier.server.tiers.columns import gather
from kvtier.server.tiers.ghosts import B1, B2, Ghosts
from kvtier.server.tiers.lru import LruPolicy
from kvtier.server.tiers.policy import Age, Aged, Columns, Stamps

# Where a slot is. T1 and T2 are also the places of their lists, and of the lists of their ghosts.
_T1: Final = B1
_T2: Final = B2
_NEW: Final = 2
# Requests that are known to have moved the target, which is more than are ever under way.
_ADAPTED = 4096


class ArcPolicy:
    """The published algorithm, over the groups of `lru`.

    T1 has the slots that one request used, T2 those that another used again, each as `lru` orders
    them: the tail of the group that was stamped longest ago goes first. B1 and B2 have the keys of
    what was evicted from them. A ghost that comes back is in T2, and moves the target of T1's size.

    Where the paper speaks of a page that is referenced, and callers speak of chains:

    - What one request names again counts once: its chunks and its loads do not make a block of T1
      one of T2. A call without a request id is a request of its own.
    - A request moves the target once, by the first ghost of the first call that names any.
    - Room is made for a whole offer before its blocks come. REPLACE is asked once for each block
      that finds no free slot, with the sizes as they are once the blocks before it have come, and
      those of the offer that are there have been used. A list without candidates passes its turn
      on to the other.
    - A copy that enters is not a use: it is in T1 at its age, or in T2 when it is a ghost of B2.
      The first request that uses it finds the ghost then. So a block that was evicted to a slower
      tier, and is brought back to be used, counts as the paper's ghost.
    - Blocks that were deleted, cleared or given back leave no ghost.

    Every operation is O(1) amortised for each slot it names.
    """

    def __init__(self, columns: Columns, stamps: Stamps) -> None:
        self._capacity = columns.capacity
        self._keys = columns.keys
        self._stamps = stamps
        self._lists = (LruPolicy(columns, stamps), LruPolicy(columns, stamps))
        self._sizes = [0, 0]
        self._where: list[int] = []
        self._ghosts = Ghosts(columns.capacity)
        self._target = 0.0
        self._adapted: OrderedDict[str, None] = OrderedDict()
        # Copies that nobody has used yet, and the list whose ghost each was.
        self._returned: dict[int, int] = {}
        # What an offer brings: for each block the list whose ghost it is, and the hits in T1.
        self._coming: Sequence[int | None] = ()
        self._rising = 0

    def grow(self, slots: int) -> None:
        """Note that the columns have this many slots now."""
        self._where += [_NEW] * (slots - len(self._where))
        for each in self._lists:
            each.grow(slots)

    def stamp(self, request_id: str, slots: Sequence[int]) -> None:
        """Use slots: what is seen again goes to T2, and the request's groups to the front."""
        first, again = self._sort(request_id, slots) if slots else ((), ())
        age = self._stamps.age(request_id)
        self._place(_T1, first)
        self._place(_T2, again)
        self._lists[_T1].renew(age, first)
        self._lists[_T2].renew(age, again)
        self._ghosts.trim(*self._sizes)
        if not request_id:
            self._adapted.pop("", None)

    def expect(self, request_id: str, residents: Sequence[int], keys: Sequence[bytes]) -> None:
        """Move the request's groups to the front, and adapt to the ghosts that are to come."""
        age = self._stamps.age(request_id)
        for each in self._lists:
            each.renew(age, ())
        self._coming = self._ghosts.find(keys)
        self._adapt(request_id, self._coming)
        self._rising = len(self._seen_again(request_id, self._those(_T1, residents)))

    def enter(self, age: Age, slots: Sequence[int]) -> None:
        """Take in copies: in T2 those that are ghosts of B2, and in T1 the others, at their age."""
        keys = gather(slots)(self._keys)
        lists = self._ghosts.find(keys)
        known = zip(keys, lists, strict=True)
        self._ghosts.drop([key for key, ghost in known if ghost is not None])
        entering: tuple[list[int], list[int]] = ([], [])
        for slot, ghost in zip(slots, lists, strict=True):
            place = self._where[slot]
            entering[(ghost or _T1) if place == _NEW else place].append(slot)
            if ghost is not None:
                self._returned[slot] = ghost
        for which, some in enumerate(entering):
            if some:
                self._place(which, some)
                self._lists[which].enter(age, some)
        self._ghosts.trim(*self._sizes)

    def ages(self, slots: Sequence[int]) -> list[Aged]:
        """Return the age of slots, in the order of first appearance, without those not known."""
        merged: dict[Age, list[int]] = {}
        for each in self._lists:
            for age, some in each.ages(slots):
                merged.setdefault(age, []).extend(some)
        place = {slot: place for place, slot in enumerate(slots)}.__getitem__
        ordered = [(age, sorted(some, key=place)) for age, some in merged.items()]
        return sorted(ordered, key=lambda aged: place(aged[1][0]))

    def victims(self, count: int) -> list[Aged]:
        """Take `count` unleased slots as REPLACE does; their keys become ghosts."""
        taken: list[Aged] = []
        for which, turns in groupby(self._turns(count)):
            wanted = len(list(turns))
            for each in (which, 1 - which):
                some = self._lists[each].take(wanted) if wanted else []
                wanted -= sum(self._bury(each, slots) for _, slots in some)
                taken += some
            assert not wanted, "there are not so many victims"
        self._coming, self._rising = (), 0
        return taken

    def forget(self, slots: Sequence[int]) -> None:
        """Drop slots; they leave no ghost."""
        for which, each in enumerate(self._lists):
            some = self._those(which, slots)
            if some:
                self._leave(which, some)
                each.forget(some)

    def released(self, slots: Sequence[int]) -> None:
        """Note that a lease on these slots ended; those without any left may go again."""
        for each in self._lists:
            each.released(slots)

    def _sort(self, request_id: str, slots: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
        """Divide slots between T1 and T2, and take those that leave T1 out of it."""
        where = gather(slots)(self._where)
        if not self._returned and where.count(_T2) == len(slots):
            return (), slots
        rising = self._seen_again(request_id, self._those(_T1, slots))
        back = self._come_back(request_id, slots, where)
        if not rising and not back and not where.count(_T2):
            return slots, ()
        if rising:
            self._leave(_T1, rising)
            self._lists[_T1].forget(rising)
        again = {*rising, *back, *self._those(_T2, slots)}
        return [slot for slot in slots if slot not in again], [s for s in slots if s in again]

    def _come_back(
        self, request_id: str, slots: Sequence[int], where: Sequence[int]
    ) -> Sequence[int]:
        """Return the slots whose blocks are ghosts, which end with that, and adapt to them."""
        returned = self._returned
        new = slots
        if where.count(_NEW) < len(slots):
            new = [slot for slot, place in zip(slots, where, strict=True) if place == _NEW]
        keys = gather(new)(self._keys)
        ghosts = self._ghosts.find(keys)
        if not returned and ghosts.count(None) == len(ghosts):
            return ()
        known = {slot: ghost for slot, ghost in zip(new, ghosts, strict=True) if ghost is not None}
        back = known | {slot: returned[slot] for slot in slots if slot in returned}
        self._adapt(request_id, [back.get(slot) for slot in slots])
        self._ghosts.drop([self._keys[slot] for slot in known])
        for slot in returned.keys() & back.keys():
            del returned[slot]
        return list(back)

    def _seen_again(self, request_id: str, slots: Sequence[int]) -> Sequence[int]:
        """Return those slots of T1 that another request stamped, or whose ghost came back."""
        if not slots:
            return ()
        mine = set(self._lists[_T1].members(request_id, slots)) - self._returned.keys()
        return [slot for slot in slots if slot not in mine]

    def _adapt(self, request_id: str, ghosts: Sequence[int | None]) -> None:
        """Move the target by the first of some ghosts, if the request has not moved it yet."""
        ghost = next((each for each in ghosts if each is not None), None)
        if ghost is None or request_id in self._adapted:
            return
        self._adapted[request_id] = None
        if len(self._adapted) > _ADAPTED:
            self._adapted.popitem(last=False)
        step = max(1.0, self._ghosts.sizes[1 - ghost] / max(1, self._ghosts.sizes[ghost]))
        change = step if ghost == B1 else -step
        self._target = min(max(self._target + change, 0.0), float(self._capacity))

    def _turns(self, count: int) -> Iterator[int]:
        """Yield the list that REPLACE takes from for each of the last `count` blocks to come."""
        spare = max(0, len(self._coming) - count)
        size = self._sizes[_T1] - self._rising + self._coming[:spare].count(None)
        coming = self._coming[spare:]
        # Without an offer nothing comes to T1.
        yield from self._replace(size, [B1] * (count - len(coming)) + list(coming))

    def _replace(self, size: int, coming: Sequence[int | None]) -> Iterator[int]:
        for ghost in coming:
            first = size > 0 and (size > self._target or (ghost == B2 and size == self._target))
            yield _T1 if first else _T2
            size += (ghost is None) - first

    def _bury(self, which: int, slots: Sequence[int]) -> int:
        """Make ghosts of slots that were taken from a list; return how many there are."""
        self._leave(which, slots)
        self._ghosts.add(which, gather(slots)(self._keys))
        return len(slots)

    def _those(self, which: int, slots: Sequence[int]) -> Sequence[int]:
        where = gather(slots)(self._where)
        count = where.count(which)
        if count in {0, len(slots)}:
            return slots if count else ()
        return [slot for slot, place in zip(slots, where, strict=True) if place == which]

    def _place(self, which: int, slots: Sequence[int]) -> None:
        where = self._where
        for slot in slots:
            if where[slot] == _NEW:
                self._sizes[which] += 1
                where[slot] = which

    def _leave(self, which: int, slots: Sequence[int]) -> None:
        self._sizes[which] -= len(slots)
        for slot in slots:
            self._where[slot] = _NEW
        if self._returned:
            for slot in slots:
                self._returned.pop(slot, None)
