"""Nodes of several tiers, small enough that everything happens, and slow enough to be met."""

import random
import time
from collections.abc import Sequence
from typing import Any

from kvtier.server.stores.base import BlockStore, Bytes
from tests.contract.support import cpu_tier, gpu_tier
from tests.lasting.tiers import fs_tier, obj_tier

_UP: dict[str, Any] = {"demote_wait": 0.02, "free_target": 0}

# By name: the tiers of a node.
SHAPES: dict[str, list[dict[str, Any]]] = {
    "exclusive": [gpu_tier(5, on_evict="cpu0", **_UP), cpu_tier(7)],
    "inclusive": [gpu_tier(5, write_through=["cpu0"]), cpu_tier(9)],
    "three in a row": [
        gpu_tier(4, on_evict="cpu0", **_UP),
        cpu_tier(5, on_evict="cpu1", **_UP),
        cpu_tier(6, "cpu1"),
    ],
    "through and down": [
        gpu_tier(4, on_evict="cpu0", write_through=["cpu1"], **_UP),
        cpu_tier(5),
        cpu_tier(8, "cpu1"),
    ],
    "kept free": [
        gpu_tier(8, on_evict="cpu0", demote_wait=0.02, free_target=0.4),
        cpu_tier(8),
    ],
    "two above one": [
        gpu_tier(5, on_evict="cpu0", **_UP),
        gpu_tier(4, "gpu1", on_evict="cpu0", **_UP),
        cpu_tier(6),
    ],
    "slots of two sizes": [
        gpu_tier(5, on_evict="cpu0", **_UP),
        cpu_tier(6, capacity=6 * 96, slot_bytes=96),
    ],
    "both ways": [gpu_tier(5, on_evict="cpu0", write_through=["cpu0"], **_UP), cpu_tier(6)],
}


_FILES: dict[str, Any] = {"io_timeout": 0.1, "io_threads": 2}

# The same where blocks go to files and objects.
LASTING: dict[str, list[dict[str, Any]]] = {
    "down to files": [gpu_tier(5, on_evict="fs0", **_UP), fs_tier(8, **_FILES)],
    "through to files": [cpu_tier(5, write_through=["fs0"]), fs_tier(9, **_FILES)],
    "down and through": [
        gpu_tier(4, on_evict="cpu0", write_through=["fs0"], **_UP),
        cpu_tier(5, on_evict="fs0", **_UP),
        fs_tier(8, **_FILES),
    ],
    "files above objects": [
        gpu_tier(4, on_evict="fs0", **_UP),
        fs_tier(6, on_evict="obj0", **_UP, **_FILES),
        obj_tier(9, **_FILES),
    ],
    "through to both": [
        cpu_tier(6, on_evict="fs0", write_through=["obj0", "fs0"], **_UP),
        fs_tier(7, **_FILES),
        obj_tier(9, policy="arc", **_FILES),
    ],
    "files kept free": [
        gpu_tier(8, on_evict="fs0", demote_wait=0.02, free_target=0.4),
        fs_tier(10, on_evict="obj0", demote_wait=0.02, free_target=0.3, **_FILES),
        obj_tier(8, **_FILES),
    ],
}


class SlowStore:
    """A store whose copies take a moment, now and then, and sometimes fail.

    Args:
        store: The store.
        seed: What the moments depend on.
    """

    def __init__(self, store: BlockStore, seed: int) -> None:
        self.medium = store.medium
        self.device = store.device
        self.capacity_bytes = store.capacity_bytes
        self.inline_bytes = store.inline_bytes
        self.failing = False
        self._store = store
        self._random = random.Random(seed)

    def write(self, position: int, data: bytes | memoryview) -> None:
        """Write, later."""
        self._pause()
        if self.failing and self._random.random() < 0.2:
            raise OSError("the store failed")
        self._store.write(position, data)

    def put(self, position: int, data: bytes) -> None:
        """Write at once, and without fail: what a client does is not what is tried here."""
        self._store.write(position, data)

    def read(self, position: int, length: int) -> bytes:
        """Read, as a lease's holder does."""
        return self._store.read(position, length)

    def write_many(self, positions: Sequence[int], blocks: Sequence[Bytes]) -> None:
        """Write, later, if at all."""
        for position, block in zip(positions, blocks, strict=True):
            self.write(position, block.data)

    def read_into(self, positions: Sequence[int], blocks: Sequence[Bytes]) -> None:
        """Read, later."""
        self._pause()
        self._store.read_into(positions, blocks)

    def views(self, positions: Sequence[int], lengths: Sequence[int]) -> list[Bytes] | None:
        """Return the bytes themselves, if threads may reach them; else every copy takes time."""
        return self._store.views(positions, lengths)

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def _pause(self) -> None:
        if self._random.random() < 0.5:
            time.sleep(self._random.random() * 0.003)
