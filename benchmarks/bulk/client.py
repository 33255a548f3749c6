"""The client process of one contender: it puts and gets batches, and tells what that took."""

import random
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import NamedTuple

from benchmarks.bulk.child import cpu_seconds
from benchmarks.bulk.contender import Contender, module
from benchmarks.events.worker import obey

_FREED = 31 << 20


class Cost(NamedTuple):
    """What moving some bytes took.

    Attributes:
        moved: The bytes.
        seconds: From the first call to the end of the last.
        client: Seconds of CPU of the client process.
        servers: Seconds of CPU of the server processes.
    """

    moved: int
    seconds: float
    client: float
    servers: float

    @property
    def rate(self) -> float:
        """GB a second."""
        return self.moved / self.seconds / 1e9

    @property
    def cpu_per_gb(self) -> float:
        """Seconds of CPU for each GB, of all processes."""
        return (self.client + self.servers) / self.moved * 1e9


class Client:
    """Does the orders of a measurement.

    Args:
        contender: What is measured.
    """

    def __init__(self, contender: Contender) -> None:
        self._contender = contender
        self._blocks: list[memoryview] = []

    def use(self, count: int, size: int) -> bool:
        """Put batches of so many blocks of a size, in bytes, from here on.

        Returns:
            Whether a batch comes back byte for byte.
        """
        self._blocks = [memoryview(random.randbytes(size)) for _ in range(count)]
        self._contender.put(self._blocks)
        return [bytes(block) for block in self._contender.get()] == self._blocks

    def put(self, calls: int) -> Cost:
        """Put a batch so many times, one after the other."""
        return self._measure(calls, lambda: self._contender.put(self._blocks))

    def get(self, calls: int) -> Cost:
        """Get the last batch so many times, one after the other."""

        def get() -> None:
            assert len(self._contender.get()) == len(self._blocks)

        return self._measure(calls, get)

    def _measure(self, calls: int, act: Callable[[], None]) -> Cost:
        before = self._spent()
        begun = time.perf_counter()
        for _ in range(calls):
            act()
        seconds = time.perf_counter() - begun
        after = self._spent()
        moved = calls * sum(map(len, self._blocks))
        return Cost(moved, seconds, after[0] - before[0], after[1] - before[1])

    def _spent(self) -> tuple[float, float]:
        return time.process_time(), sum(map(cpu_seconds, self._contender.servers))


def main(pipe: Connection, name: str) -> None:
    """Run the contender of a module."""
    # As in any process that handles tensors, something large was freed before: from then on glibc
    # keeps the memory of smaller messages.
    bytearray(_FREED)
    contender = module(name).open()
    try:
        obey(pipe, Client(contender))
    finally:
        contender.close()
