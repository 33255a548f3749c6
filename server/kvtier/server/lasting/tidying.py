"""What is still to be done to a shelf before more is written to it."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from functools import partial
from itertools import islice
from typing import Protocol

from kvtier.server.lasting.shelf import Shelf

# So much in one go keeps within the deadline of a job.
_MOST_DELETED = 1000


class Doomed(Sized, Iterable[str], Protocol):
    """Names of blocks to delete, which may be made only when they are taken, in a thread."""


class Tidying:
    """Blocks to delete, and descriptions of namespaces to write and remove, in this order.

    The event loop adds, and only `step` takes out, in a thread: what failed is still to be done.

    Args:
        shelf: The shelf.
    """

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._lots = deque[Iterator[str]]()
        # What a step is deleting, or failed to.
        self._going: list[str] = []
        self._chores = deque[Callable[[], None]]()
        self._described: set[bytes] = set()
        # The loop counts what comes, threads count what is done: neither can be caught in between.
        self._discarded = self._deleted = 0
        self._asked = self._done = 0
        self._stepping = threading.Lock()

    @property
    def doomed(self) -> int:
        """How many blocks are still to be deleted."""
        return self._discarded - self._deleted

    @property
    def waits(self) -> bool:
        """Whether anything is to be done."""
        return bool(self.doomed or self._chores)

    def discard(self, names: Doomed) -> None:
        """Have blocks deleted."""
        self._discarded += len(names)
        self._lots.append(iter(names))

    def describe(self, fingerprint: bytes, description: Callable[[], bytes]) -> None:
        """Have a namespace described, if this life has not described it yet."""
        if fingerprint not in self._described:
            self._described.add(fingerprint)
            self._add(partial(self._shelf.describe, fingerprint.hex(), description()))

    def describe_again(self) -> None:
        """Take no namespace for described any more."""
        self._described.clear()

    def forget(self, fingerprint: bytes) -> None:
        """Have a description removed."""
        self._described.discard(fingerprint)
        self._add(partial(self._shelf.forget, fingerprint.hex()))

    def so_far(self) -> Callable[[], bool]:
        """Return what tells whether everything is done that is to be done by now."""
        discarded, begun = self._discarded, self._asked
        return lambda: self._deleted >= discarded and self._done >= begun

    def _add(self, chore: Callable[[], None]) -> None:
        self._asked += 1
        self._chores.append(chore)

    # In threads

    def finish(self) -> None:
        """Do all of it; who comes meanwhile helps, since it needs the room.

        Raises:
            ShelfError: When the shelf fails.
        """
        while self.waits:
            self.step()

    def step(self) -> None:
        """Do some of it.

        Raises:
            ShelfError: When the shelf fails.
        """
        with self._stepping:
            self._take_names()
            if self._going:
                self._shelf.delete(self._going)
                self._deleted += len(self._going)
                self._going = []
            elif self._chores:
                self._chores[0]()
                self._chores.popleft()
                self._done += 1

    def _take_names(self) -> None:
        while self._lots and len(self._going) < _MOST_DELETED:
            some = list(islice(self._lots[0], _MOST_DELETED - len(self._going)))
            if not some:
                self._lots.popleft()
            self._going += some
