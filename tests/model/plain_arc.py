"""What `arc` means, in lists: slow, and plain to see."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from tests.model.plain_lru import PlainLru

T = TypeVar("T")
Page = int


class PaperArc:
    """ARC(c) word for word: Figure 4 of Megiddo and Modha, FAST 2003, for one page at a time.

    The lists have their least recently used page first.
    """

    def __init__(self, capacity: int) -> None:
        self.c = capacity
        self.p = 0.0
        self.t1: list[Page] = []
        self.t2: list[Page] = []
        self.b1: list[Page] = []
        self.b2: list[Page] = []

    def request(self, x: Page) -> None:
        """Request a page."""
        if x in self.t1 or x in self.t2:
            (self.t1 if x in self.t1 else self.t2).remove(x)
        elif x in self.b1:
            more = 1 if len(self.b1) >= len(self.b2) else len(self.b2) / len(self.b1)
            self.p = min(self.p + more, self.c)
            self._replace(x)
            self.b1.remove(x)
        elif x in self.b2:
            less = 1 if len(self.b2) >= len(self.b1) else len(self.b1) / len(self.b2)
            self.p = max(self.p - less, 0)
            self._replace(x)
            self.b2.remove(x)
        else:
            self._make_place_for_new(x)
            self.t1.append(x)
            return
        self.t2.append(x)

    def _make_place_for_new(self, x: Page) -> None:
        both = len(self.t1) + len(self.t2) + len(self.b1) + len(self.b2)
        if len(self.t1) + len(self.b1) == self.c:
            if len(self.t1) < self.c:
                self.b1.pop(0)
                self._replace(x)
            else:
                self.t1.pop(0)
        elif both >= self.c:
            if both == 2 * self.c:
                self.b2.pop(0)
            self._replace(x)

    def _replace(self, x: Page) -> None:
        size = len(self.t1)
        if size >= 1 and ((x in self.b2 and size == self.p) or size > self.p):
            self.b1.append(self.t1.pop(0))
        else:
            self.b2.append(self.t2.pop(0))


class PlainArc(Generic[T]):
    """The same for the groups of requests, members that may not go, and whole offers.

    Args:
        capacity: Number of slots.
        position: Tells a member's position.
        key: Tells a member's key.
    """

    def __init__(
        self, capacity: int, position: Callable[[T], int], key: Callable[[T], object]
    ) -> None:
        self.c = capacity
        self.p = 0.0
        self.t1 = PlainLru[T](position)
        self.t2 = PlainLru[T](position)
        self.b1: list[object] = []
        self.b2: list[object] = []
        self.stamps = 0
        self.returned: dict[T, str] = {}
        self._key = key
        self._adapted: set[str] = set()

    def stamp(self, request_id: str, members: Sequence[T]) -> None:
        """Use members; one of T1, or a ghost, that is used by another request goes to T2."""
        ghosts = {member: self._ghost(member) for member in members}
        self._adapt(request_id, list(ghosts.values()))
        self._adapted.discard("")
        first = [m for m in members if not ghosts[m] and self._counts_once(request_id, m)]
        again = [m for m in members if m not in first]
        self._bring_back(members)
        self.returned = {m: ghost for m, ghost in self.returned.items() if m not in members}
        self.t1.forget(again)
        self._number()
        self.t1.stamp(request_id, first)
        self.t2.stamp(request_id, again)
        self._trim()

    def enter(self, request_id: str, stamp: int, members: Sequence[T]) -> None:
        """Take in copies, which nobody uses by that; what was a ghost is known to have been."""
        ghosts = {m: self._listed(self._key(m)) for m in members if m not in self.members()}
        frequent = [m for m in members if m in self.t2.members() or ghosts.get(m) == "B2"]
        self._bring_back(members)
        self.returned |= {member: ghost for member, ghost in ghosts.items() if ghost}
        others = [m for m in members if m not in frequent]
        for each, some in ((self.t1, others), (self.t2, frequent)):
            if some:
                each.enter(request_id, stamp, some)
        self._trim()

    def evict(
        self,
        count: int,
        may_go: Callable[[T], bool],
        request_id: str,
        residents: Sequence[T],
        keys: Sequence[object],
    ) -> list[T]:
        """Make room for an offer; return what went, which is forgotten."""
        self._number()
        self.t1.stamp(request_id, [])
        self.t2.stamp(request_id, [])
        coming = [self._listed(key) for key in keys]
        self._adapt(request_id, coming)
        rising = [
            each
            for each in residents
            if each in self.t1.members() and not self._counts_once(request_id, each)
        ]
        size = len(self.t1.members()) - len(rising)
        gone: list[T] = []
        for _ in range(count - len(coming)):
            gone.append(self._replace(size, "", may_go))
            size = len(self.t1.members()) - len(rising)
        for place, ghost in enumerate(coming):
            if place >= len(coming) - count:
                had = len(self.t1.members())
                gone.append(self._replace(size, ghost, may_go))
                size -= had - len(self.t1.members())
            size += not ghost
        return gone

    def forget(self, members: Sequence[T]) -> None:
        """Drop members, which leave no ghost."""
        self.t1.forget(members)
        self.t2.forget(members)
        self.returned = {m: ghost for m, ghost in self.returned.items() if m not in members}

    def order(self, may_go: Callable[[T], bool]) -> list[T]:
        """Return the members that may go, those of T1 first, each list in its order."""
        return self.t1.order(may_go) + self.t2.order(may_go)

    def members(self) -> list[T]:
        """Return all members."""
        return self.t1.members() + self.t2.members()

    def _adapt(self, request_id: str, ghosts: Sequence[str]) -> None:
        """Move the target by the first ghost: once for each request, or each call without one."""
        found = [ghost for ghost in ghosts if ghost]
        if not found or request_id in self._adapted:
            return
        self._adapted.add(request_id)
        b1, b2 = len(self.b1), len(self.b2)
        if found[0] == "B1":
            self.p = min(self.p + max(1, b2 / max(1, b1)), self.c)
        else:
            self.p = max(self.p - max(1, b1 / max(1, b2)), 0)

    def _number(self) -> None:
        self.t1.stamps = self.t2.stamps = self.stamps
        self.stamps += 1

    def _ghost(self, member: T) -> str:
        return self.returned.get(member) or self._listed(self._key(member))

    def _listed(self, key: object) -> str:
        return "B1" if key in self.b1 else "B2" if key in self.b2 else ""

    def _counts_once(self, request_id: str, member: T) -> bool:
        if member in self.t2.members() or member in self.returned:
            return False
        known = member in self.t1.members()
        return not known or (bool(request_id) and self.t1.stamped_by(member) == request_id)

    def _bring_back(self, members: Sequence[T]) -> None:
        keys = [self._key(member) for member in members]
        self.b1 = [key for key in self.b1 if key not in keys]
        self.b2 = [key for key in self.b2 if key not in keys]

    def _replace(self, size: int, ghost: str, may_go: Callable[[T], bool]) -> T:
        from_t1 = size >= 1 and ((ghost == "B2" and size == self.p) or size > self.p)
        first, second = (self.t1, self.t2) if from_t1 else (self.t2, self.t1)
        victim = (first.order(may_go) or second.order(may_go))[0]
        ghosts = self.b1 if victim in self.t1.members() else self.b2
        self.forget([victim])
        ghosts.append(self._key(victim))
        return victim

    def _trim(self) -> None:
        t1, t2 = len(self.t1.members()), len(self.t2.members())
        while self.b1 and t1 + len(self.b1) > self.c:
            self.b1.pop(0)
        while self.b2 and t1 + t2 + len(self.b1) + len(self.b2) > 2 * self.c:
            self.b2.pop(0)
