"""The tables of an index, one for each namespace, group and scope."""

from collections import OrderedDict, deque
from collections.abc import Sequence

from kvtier.client.holdings import Holdings
from kvtier.client.source import Build, Holder, Space

# Blocks to sweep at a time, at least: a millisecond of work. Coming to a space counts for some.
_SWEPT_AT_ONCE = 4096
_VISIT = 64


class Spaces:
    """Who holds what, by space; a space exists as long as something is in its table.

    A build that is dropped is seen no more at once; `sweep` works off what it leaves.
    """

    def __init__(self) -> None:
        self._tables: dict[Space, Holdings] = {}
        self._going: deque[Holder] = deque()
        self._unswept: OrderedDict[Space, None] = OrderedDict()

    def get(self, space: Space) -> Holdings | None:
        """Return the table of a space, if there is one."""
        return self._tables.get(space)

    def count(self, holder: Holder) -> int:
        """Return the number of blocks of a holder."""
        return sum(count for _, count in self.counts(holder))

    def counts(self, holder: Holder) -> list[tuple[Space, int]]:
        """Return the number of blocks of a holder in each of its spaces."""
        return [(space, self._tables[space].count(holder)) for space in holder.spaces]

    def add(self, holder: Holder, space: Space, hashes: Sequence[bytes]) -> None:
        """Note that a holder has these blocks; hashes are distinct."""
        table = self._tables.get(space)
        if table is None:
            table = self._tables[space] = Holdings()
        table.add(holder, hashes)
        holder.spaces.add(space)

    def remove(self, holder: Holder, space: Space, hashes: Sequence[bytes]) -> None:
        """Note that a holder has none of these blocks; hashes are distinct."""
        table = self._tables.get(space)
        if table is not None:
            table.remove(holder, hashes)
            if table.sweep_pays:
                self._unswept[space] = None
            self._close_if_empty(space, table)

    def drop(self, holder: Holder, namespace: bytes = b"") -> None:
        """Forget all that a holder has, or all of one namespace."""
        going = [space for space in holder.spaces if not namespace or space[0] == namespace]
        holder.spaces.difference_update(going)
        for space in going:
            self._tables[space].drop(holder)
            self._unswept[space] = None

    def drop_build(self, build: Build) -> None:
        """Forget all that the holders of a build have; it costs the same however much that is."""
        build.visible = False
        self._going.extend(build.holders.values())

    def sweep(self) -> None:
        """Work off some of what was dropped: a millisecond or two."""
        done = 0
        while done < _SWEPT_AT_ONCE and (self._going or self._unswept):
            if self._going:
                self._drop_one_space()
            else:
                done += self._sweep_one_space()
            done += _VISIT

    def _drop_one_space(self) -> None:
        holder = self._going[0]
        if not holder.spaces:
            self._going.popleft()
            return
        space = holder.spaces.pop()
        self._tables[space].drop(holder)
        self._unswept[space] = None

    def _sweep_one_space(self) -> int:
        space = next(iter(self._unswept))
        table = self._tables.get(space)
        done = table.sweep() if table is not None else 0
        if not done:
            del self._unswept[space]
            if table is not None:
                self._close_if_empty(space, table)
        return done

    def _close_if_empty(self, space: Space, table: Holdings) -> None:
        if not table.entries:
            del self._tables[space]
            for holder in table.holders():
                holder.spaces.discard(space)
