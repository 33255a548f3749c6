"""A gate before the node's own copies, so that a test can act while one is under way."""

import asyncio
import threading
from collections.abc import Sequence

from kvtier.server.stores.base import BlockStore
from kvtier.server.stores.copying import copy_slots

PATIENCE = 20.0


class CopyGate:
    """Lets copies pass, or makes them wait, until a test says otherwise.

    Attributes:
        blocks: How many blocks have been copied.
        error: What copies fail with, if anything.
    """

    def __init__(self) -> None:
        self.blocks = 0
        self.error: Exception | None = None
        self._open = threading.Event()
        self._open.set()
        self._reached = threading.Event()

    def shut(self) -> None:
        """Make further copies wait."""
        self._open.clear()
        self._reached.clear()

    def let_through(self) -> None:
        """Let all copies pass."""
        self._open.set()

    async def reached(self) -> None:
        """Wait until a copy stands at the gate."""
        assert await asyncio.to_thread(self._reached.wait, PATIENCE), "no copy came"

    def copy(
        self,
        source: BlockStore,
        source_positions: Sequence[int],
        target: BlockStore,
        target_positions: Sequence[int],
        lengths: Sequence[int],
    ) -> list[int]:
        """Stand in for `copy_slots`."""
        self._reached.set()
        assert self._open.wait(PATIENCE), "nobody opened the gate"
        if self.error is not None:
            raise self.error
        self.blocks += len(lengths)
        return copy_slots(source, source_positions, target, target_positions, lengths)
