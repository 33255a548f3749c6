"""Finding out when a shelf that failed works again."""

import asyncio
from collections.abc import Callable

from kvtier.server.lasting.health import READ_ONLY
from kvtier.server.lasting.shelf import ShelfError
from kvtier.server.lasting.store import LastingStore

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 5.0


class Healing:
    """Tries a shelf that failed, less and less often, until it can be written to again.

    While a tier recovers, recovery does that.

    Args:
        store: The tier's store.
        largest: Tells how many bytes the largest block takes.
    """

    def __init__(self, store: LastingStore, largest: Callable[[], int]) -> None:
        self._store = store
        self._largest = largest
        self._changed = asyncio.Event()
        store.health.listen(self._changed.set)

    async def run(self) -> None:
        """Do so without end."""
        while True:
            if self._store.health.state == READ_ONLY:
                await self._heal()
            await self._changed.wait()
            self._changed.clear()

    async def _heal(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            await asyncio.sleep(pause)
            try:
                # What is to be deleted may be all that is in the way.
                await self._store.flush()
                await self._store.run(lambda: self._store.shelf.probe(self._largest()))
            except ShelfError:
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                self._store.describe_again()
                self._store.health.heal()
                return
