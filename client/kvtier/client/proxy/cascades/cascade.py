"""What becomes of the blocks of a store at the secondaries."""

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import Enum

from kvtier.client.errors import KvtierError
from kvtier.v1.result_pb2 import CopyResult

COPIED = CopyResult.COPY_RESULT_COPIED
PRESENT = CopyResult.COPY_RESULT_PRESENT
MISS = CopyResult.COPY_RESULT_MISS
FAILED = CopyResult.COPY_RESULT_FAILED
NOTHING = CopyResult.COPY_RESULT_UNSPECIFIED


class Skip(Enum):
    """Why a secondary was not asked."""

    DOWN = "it is out of reach, or was never heard of"
    PAUSED = "it failed, or the primary did, a moment ago"
    BUSY = "it has not caught up with earlier stores"
    SEVERAL = "several nodes are behind its address"
    CLOSED = "the proxy was closed"


@dataclass(frozen=True, slots=True)
class SecondaryOutcome:
    """What became of the blocks of one store at one secondary.

    Attributes:
        endpoint: The secondary's address.
        results: One a block, in the offer's order: COPY_RESULT_PRESENT also where the index shows
            that the secondary has it, COPY_RESULT_MISS where the primary had it no more, and
            COPY_RESULT_UNSPECIFIED where it was not sent.
        skipped: Why nothing was sent; None when it was tried.
        error: What the sending ended with; None when it went to its end.
    """

    endpoint: str
    results: tuple[CopyResult.ValueType, ...]
    skipped: Skip | None = None
    error: KvtierError | None = None


@dataclass(slots=True)
class CascadeCounts:
    """What was done for one secondary so far, in blocks.

    Attributes:
        sent: Copied to it.
        present: At it already.
        gone: Left the primary before they were sent.
        failed: Tried, and not copied.
        skipped: Not tried, by the reason.
        dropped: Skipped, remembered to be sent later, and forgotten because there were too many.
    """

    sent: int = 0
    present: int = 0
    gone: int = 0
    failed: int = 0
    skipped: Counter[Skip] = field(default_factory=Counter)
    dropped: int = 0

    def add(self, results: Collection[CopyResult.ValueType], blocks: int) -> None:
        """Count what became of so many blocks that were tried."""
        of = Counter(results)
        self.sent += of[COPIED]
        self.present += of[PRESENT]
        self.gone += of[MISS]
        self.failed += blocks - of[COPIED] - of[PRESENT] - of[MISS]


class Cascade:
    """A store's way to the secondaries, which goes on whether or not anybody waits for it.

    Args:
        under_way: What becomes of it at each secondary that wants it, in order.
    """

    def __init__(self, under_way: Sequence[asyncio.Future[SecondaryOutcome]] = ()) -> None:
        self._under_way = tuple(under_way)

    @property
    def done(self) -> bool:
        """Whether it has ended at every secondary."""
        return all(each.done() for each in self._under_way)

    async def wait(self) -> tuple[SecondaryOutcome, ...]:
        """Return what became of it at each secondary, in order, once that is known."""
        if self._under_way:
            await asyncio.wait(self._under_way)
        return tuple(each.result() for each in self._under_way)
