"""Time that passes only when a test says so."""

import asyncio


class ManualTime:
    """A clock and a sleep that a test moves.

    Attributes:
        now: The time in seconds.
        asked: Every sleep that was asked for, in seconds.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.asked: list[float] = []
        self._sleepers: list[tuple[float, asyncio.Event]] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.asked.append(seconds)
        due, woken = self.now + seconds, asyncio.Event()
        self._sleepers.append((due, woken))
        await woken.wait()

    def advance(self, seconds: float) -> None:
        """Let time pass, and wake whoever is due."""
        self.now += seconds
        for due, woken in self._sleepers:
            if due <= self.now:
                woken.set()
        self._sleepers = [(due, woken) for due, woken in self._sleepers if due > self.now]
