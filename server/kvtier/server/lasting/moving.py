"""Blocks on their way to or from a shelf, and what becomes of them."""

import asyncio
from collections.abc import Callable, Sequence
from enum import Enum

from kvtier.server.lasting.lane import Job, StalledError


class Outcome(Enum):
    """What became of one block."""

    DONE = "done"
    # What was to be written does not match its checksum.
    DIFFERS = "differs"
    # There is no such block.
    MISSING = "missing"
    # What is there is not what was written.
    DAMAGED = "damaged"
    # The shelf failed, or did not answer in time.
    FAILED = "failed"


class Moving:
    """Blocks that threads are moving.

    Attributes:
        given_up: Some were still on their way at the deadline.
        ended: Done when no thread touches the blocks' memory any more; a future of the loop.
    """

    def __init__(
        self,
        jobs: Sequence[tuple[int, Job[list[Outcome]]]],
        given_up: Callable[[Job[list[Outcome]]], None],
    ) -> None:
        self._jobs = jobs
        self._tell_given_up = given_up
        self.given_up = False
        self.ended = asyncio.gather(*(job.ended for _, job in jobs), return_exceptions=True)

    def abandon(self) -> None:
        """Wait no more for what has not ended: what no thread has begun never will be."""
        for _, job in self._jobs:
            if not job.ended.done():
                job.abandon()

    async def outcomes(self) -> list[Outcome]:
        """Return what became of each block, at the deadline at the latest."""
        outcomes: list[Outcome] = []
        for blocks, job in self._jobs:
            try:
                outcomes += await job.result()
            except StalledError:
                self.given_up = True
                self._tell_given_up(job)
                outcomes += [Outcome.FAILED] * blocks
        return outcomes
