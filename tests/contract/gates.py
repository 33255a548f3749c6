"""A store whose copies wait at a gate, so that a test can act while one is under way."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kvtier.server.stores.base import BlockStore, Bytes

from .support import Serving

# Larger than what is copied without a thread.
LARGE = 1 << 20
PATIENCE = 20.0


class GatedStore:
    """Passes everything on to a store; reads and writes of large data wait at the gate.

    Args:
        store: The store.
    """

    def __init__(self, store: BlockStore) -> None:
        self.medium = store.medium
        self.device = store.device
        self.capacity_bytes = store.capacity_bytes
        self.inline_bytes = store.inline_bytes
        self._store = store
        self._open = threading.Event()
        self._reached = threading.Event()

    def write(self, position: int, data: bytes | memoryview) -> None:
        self._pass(len(data))
        self._store.write(position, data)

    def read(self, position: int, length: int) -> bytes:
        self._pass(length)
        return self._store.read(position, length)

    def write_many(self, positions: Sequence[int], blocks: Sequence[Bytes]) -> None:
        self._pass(max(map(len, blocks), default=0))
        self._store.write_many(positions, blocks)

    def read_into(self, positions: Sequence[int], blocks: Sequence[Bytes]) -> None:
        self._pass(max(map(len, blocks), default=0))
        self._store.read_into(positions, blocks)

    def views(self, positions: Sequence[int], lengths: Sequence[int]) -> None:
        """Tell of none, so that every copy passes the gate."""

    def close(self) -> None:
        self._store.close()

    async def reached(self) -> None:
        """Wait until a copy stands at the gate."""
        assert await asyncio.to_thread(self._reached.wait, PATIENCE)

    def let_through(self) -> None:
        """Open the gate, for good."""
        self._open.set()

    def _pass(self, length: int) -> None:
        if length == LARGE:
            self._reached.set()
            assert self._open.wait(PATIENCE), "nobody opened the gate"


@contextmanager
def gated(node: Serving, tier: str) -> Iterator[GatedStore]:
    """Put a gate before a tier's store; it opens at the latest when the body ends."""
    (there,) = [each for each in node.node.tiers if each.name == tier]
    gate = there.store = GatedStore(there.arena)
    try:
        yield gate
    finally:
        gate.let_through()
