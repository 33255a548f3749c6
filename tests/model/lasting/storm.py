"""Disks that fail, stand still, and end with the process at any operation."""

import random
from collections.abc import Callable
from threading import Event, Lock

from kvtier.server.lasting.disk import Disk, RootedDisk
from tests.unit.lasting.faulty_disk import FAULTS, Crash, Fault, FaultyDisk

_OPERATIONS = (
    "create",
    "write",
    "sync",
    "open",
    "read",
    "measure",
    "close",
    "exists",
    "rename",
    "unlink",
    "entries",
    "make_directory",
    "sync_directory",
    "space",
)


class Storm:
    """What happens to the disk of one life of a node; in fine weather, nothing.

    Args:
        rng: What decides.
        disk: What the disk really is.
    """

    def __init__(self, rng: random.Random, disk: Callable[[int], Disk] = RootedDisk) -> None:
        self._random = random.Random(rng.random())
        self._disk = disk
        self._lock = Lock()
        self._open = Event()
        self._open.set()
        self._standing: frozenset[str] = frozenset()
        self._failing: frozenset[str] = frozenset()
        self._chance = 0.0
        self._code = FAULTS[0]
        self._left = -1
        self.crashed = False
        self._disks: list[FaultyDisk] = []

    def attach(self, root: int) -> Disk:
        """Return the disk below a directory."""
        self._disks.append(FaultyDisk(self._disk(root), self._plan))
        return self._disks[-1]

    def fail(self) -> None:
        """Let some operations fail, or all."""
        self._failing = self._some()
        self._code = self._random.choice(FAULTS)
        self._chance = self._random.choice([0.1, 0.5, 1.0])
        if self._random.random() < 0.5:
            # What stood still may fail when it goes on.
            self._open.set()

    def stall(self) -> None:
        """Let some operations stand still until the storm calms down."""
        self._standing = self._some()
        self._open.clear()

    def shorten(self) -> None:
        """Let each read and write move a part only."""
        for disk in self._disks:
            disk.most_bytes = self._random.choice([700, 5000])

    def calm(self) -> None:
        """Let all be well."""
        self._failing = self._standing = frozenset()
        self._open.set()
        for disk in self._disks:
            disk.most_bytes = 1 << 30

    def crash(self, after: int = 0) -> None:
        """End the process after so many further operations."""
        with self._lock:
            self._left = after
        if not after:
            self.crashed = True
            self._open.set()

    def _some(self) -> frozenset[str]:
        many = self._random.choice([1, 1, 2, 3, len(_OPERATIONS)])
        return frozenset(self._random.sample(_OPERATIONS, many))

    def _plan(self, operation: str, _: int) -> Fault | None:
        if operation in self._standing:
            self._open.wait()
        with self._lock:
            if self._left > 0:
                self._left -= 1
                if not self._left:
                    self.crashed = True
                    self._open.set()
            if self.crashed:
                raise Crash
            if operation in self._failing and self._random.random() < self._chance:
                return Fault(self._code, done=self._random.random() < 0.5)
        return None
