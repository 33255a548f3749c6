"""How late the event loop is."""

import asyncio
from collections.abc import Iterator
from typing import NoReturn

from kvtier.server.metrics.families import Histogram, Read

_LAG = Histogram(
    "kvtier_event_loop_lag_seconds",
    "How late the event loop calls what is due, looked at four times a second: what every call "
    "waits for besides its own work.",
    (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0),
)
FAMILIES = (_LAG,)


class LoopLag:
    """Samples how late the loop is.

    Args:
        interval: The time between two samples, in seconds.
    """

    def __init__(self, interval: float = 0.25) -> None:
        self._interval = interval
        self._samples = _LAG.begin()

    async def sample(self) -> NoReturn:
        """Take samples without end."""
        clock = asyncio.get_running_loop().time
        while True:
            due = clock() + self._interval
            await asyncio.sleep(self._interval)
            self._samples.observe(max(0.0, clock() - due))

    def collect(self) -> Iterator[Read]:
        """Read the samples."""
        yield _LAG.of([((), self._samples)])
