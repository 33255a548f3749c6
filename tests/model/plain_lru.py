"""What `lru` means, in lists: slow, and plain to see."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class _Group(Generic[T]):
    def __init__(self, name: str) -> None:
        self.name = name
        self.stamp = 0
        self.members: list[T] = []


class PlainLru(Generic[T]):
    """Groups of what one request stamped, from the one that was stamped longest ago.

    A group is ordered by position and, at equal position, by who joined it first. Its tail goes
    first.

    Args:
        position: Tells a member's position.

    Attributes:
        stamps: Number of stamps so far.
    """

    def __init__(self, position: Callable[[T], int]) -> None:
        self._position = position
        self.stamps = 0
        self._groups: list[_Group[T]] = []

    def stamp(self, request_id: str, members: Sequence[T]) -> None:
        """Move members into the request's group, and the group to the front."""
        named = [group for group in self._groups if request_id and group.name == request_id]
        if not named and not members:
            return
        self.stamps += 1
        group = named[0] if named else _Group[T](request_id)
        group.stamp = self.stamps
        self._join(group, members)

    def enter(self, request_id: str, stamp: int, members: Sequence[T]) -> None:
        """Take in members of a request's group, which is as old as a stamp unless it is here."""
        named = [group for group in self._groups if group.name == request_id]
        group = named[0] if named else _Group[T](request_id)
        group.stamp = group.stamp or stamp
        self._join(group, members)

    def _join(self, group: _Group[T], members: Sequence[T]) -> None:
        fresh = [member for member in members if member not in group.members]
        self.forget(fresh)
        group.members = sorted([*group.members, *fresh], key=self._position)
        others = [each for each in self._groups if each is not group]
        self._groups = sorted([*others, group], key=lambda each: each.stamp)
        self.forget([])

    def stamped_by(self, member: T) -> str:
        """Return the request that stamped a member last."""
        return next(group.name for group in self._groups if member in group.members)

    def evict(
        self,
        count: int,
        may_go: Callable[[T], bool],
        request_id: str,
        residents: Sequence[T],
        keys: Sequence[object],
    ) -> list[T]:
        """Make room for an offer; return what went, which is forgotten."""
        self.stamp(request_id, [])
        victims = self.order(may_go)[:count]
        self.forget(victims)
        return victims

    def forget(self, members: Sequence[T]) -> None:
        """Drop members, and groups that have none left."""
        for group in self._groups:
            group.members = [member for member in group.members if member not in members]
        self._groups = [group for group in self._groups if group.members]

    def order(self, may_go: Callable[[T], bool]) -> list[T]:
        """Return the members that may go, the first to go first."""
        return [
            member for group in self._groups for member in reversed(group.members) if may_go(member)
        ]

    def members(self) -> list[T]:
        """Return all members."""
        return [member for group in self._groups for member in group.members]

    def names(self) -> set[str]:
        """Return the requests that have a group."""
        return {group.name for group in self._groups if group.name}

    def groups(self) -> int:
        """Return how many groups there are."""
        return len(self._groups)
