"""Finding again, after a start, what a tier's shelf holds."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count, islice
from typing import Protocol, TypeVar

from kvtier.server.lasting.looking import Names, Sighting, Sightings, look_at
from kvtier.server.lasting.record import HEAD_BYTES
from kvtier.server.lasting.shelf import ShelfError
from kvtier.server.lasting.store import LastingStore

# What the loop takes in between two turns: one or two milliseconds.
_BATCH = 256
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0

T = TypeVar("T")


class Books(Protocol):
    """Where recovery enters what it finds; all of it belongs to the event loop.

    Attributes:
        full: There is no room for anything older than what was entered.
    """

    full: bool

    def introduce(self, descriptions: Mapping[str, bytes]) -> None:
        """Make the namespaces known that are described, given each fingerprint and description."""

    def enter(self, found: Sequence[Sighting]) -> None:
        """Make blocks readable; they come from the newest to the oldest."""

    def reject(self, bad: Sequence[tuple[str, str]]) -> None:
        """Let go of what is no whole block, given each name and why it is none."""

    def trim(self, names: Sequence[str]) -> None:
        """Let go of blocks for which there is no room."""

    def sum_up(self) -> None:
        """Say what became of all that was not entered."""


class Recovery:
    """Looks at every block of a shelf, newest first, and has the good ones entered.

    A shelf that fails or stands still meanwhile is tried again until it goes on.

    Args:
        store: The tier's store.
        books: Where blocks are entered.

    Attributes:
        introduced: Set once the namespaces of the shelf are known.
    """

    def __init__(self, store: LastingStore, books: Books) -> None:
        self.introduced = asyncio.Event()
        self._store = store
        self._books = books

    async def run(self) -> None:
        """Do all of it, however long that takes."""
        shelf, health = self._store.shelf, self._store.health
        self._books.introduce(await self._run(shelf.descriptions))
        self.introduced.set()
        names = await self._insist(self._list)
        self._store.serials = count(names.newest + 1)
        health.to_look_at = len(names)
        await self._take_in(names)
        self._books.sum_up()
        health.recovered()

    async def _list(self) -> Names:
        names, batches = Names(), self._store.shelf.names()
        while await self._store.run(partial(_add_next, names, batches)):
            pass
        await self._store.run(names.sort)
        return names

    async def _take_in(self, names: Names) -> None:
        """Enter all blocks, while the next ones are looked at."""
        batches = names.newest_first(_BATCH)
        ahead = deque[tuple[int, asyncio.Task[Sightings]]]()
        try:
            self._look_ahead(batches, ahead)
            while ahead:
                blocks, look = ahead.popleft()
                seen = await look
                self._look_ahead(batches, ahead)
                await self._enter(seen)
                self._store.health.looked_at += blocks
        finally:
            for _, look in ahead:
                look.cancel()

    def _look_ahead(
        self, batches: Iterator[list[str]], ahead: deque[tuple[int, asyncio.Task[Sightings]]]
    ) -> None:
        threads = self._store.threads_for(_BATCH * HEAD_BYTES)
        for batch in islice(batches, threads - len(ahead)):
            ahead.append((len(batch), asyncio.create_task(self._look_at(batch))))

    async def _look_at(self, names: Sequence[str]) -> Sightings:
        """Look at blocks until all are seen, or there is no room for more anyway."""
        patience = self._store.timeout / 2
        seen = Sightings([], [], names)
        while seen.left and not self._books.full:
            more = await self._run(partial(look_at, self._store.shelf, seen.left, patience))
            seen = Sightings(seen.found + more.found, seen.bad + more.bad, more.left)
        return seen

    async def _enter(self, seen: Sightings) -> None:
        self._books.reject(seen.bad)
        self._books.enter(seen.found)
        self._books.trim(seen.left)
        # Tidying up piece by piece keeps within the deadline, and the first store from waiting.
        await self._insist(self._store.flush)

    async def _run(self, work: Callable[[], T]) -> T:
        return await self._insist(lambda: self._store.run(work))

    async def _insist(self, work: Callable[[], Awaitable[T]]) -> T:
        """Try until the shelf does it."""
        pause = 0.0
        while True:
            try:
                result = await work()
            except ShelfError:
                pause = min(2 * pause or _FIRST_PAUSE, _LONGEST_PAUSE)
                await asyncio.sleep(pause)
            else:
                if pause:
                    self._store.health.heal()
                return result


def _add_next(names: Names, batches: Iterator[list[str]]) -> bool:
    """Add the next names, which may be none; tell whether there may be more."""
    batch = next(batches, None)
    if batch is None:
        return False
    names.add(batch)
    return True
