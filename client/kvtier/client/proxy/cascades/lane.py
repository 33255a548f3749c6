"""What waits to be carried to one secondary, and who carries it."""

import asyncio
from collections import deque
from dataclasses import dataclass, field

import grpc

from kvtier.client.errors import (
    DeadlineError,
    ExhaustedError,
    InvalidArgumentError,
    KvtierError,
    Reason,
    UnavailableError,
    typed,
)
from kvtier.client.proxy.breaker import Breaker
from kvtier.client.proxy.cascades.carrying import Carried, Carrier, StoredBlocks
from kvtier.client.proxy.cascades.cascade import (
    FAILED,
    NOTHING,
    CascadeCounts,
    SecondaryOutcome,
    Skip,
)
from kvtier.client.proxy.fleet import Endpoint
from kvtier.client.proxy.settings import CascadeSettings

# What the primary may say that is over soon.
_PASSING = (UnavailableError, DeadlineError, ExhaustedError)
# What a secondary says that concerns other namespaces as little as trying again would help.
_OF_THE_NAMESPACE = {Reason.NAMESPACE_DIFFERS, Reason.NAMESPACE_LIMIT, Reason.BLOCK_TOO_LARGE}
Outcome = asyncio.Future[SecondaryOutcome]


@dataclass(slots=True)
class _Waiting:
    """Stores in order, and what is to be told of each.

    Attributes:
        limit: Most blocks; a store that is larger is let in alone.
    """

    limit: int
    blocks: int = 0
    offers: "deque[tuple[StoredBlocks, Outcome]]" = field(default_factory=deque)

    def fits(self, blocks: int) -> bool:
        return not self.offers or self.blocks + blocks <= self.limit

    def put(self, stored: StoredBlocks, outcome: Outcome) -> None:
        self.offers.append((stored, outcome))
        self.blocks += len(stored.places)

    def take(self) -> tuple[StoredBlocks, Outcome]:
        stored, outcome = self.offers.popleft()
        self.blocks -= len(stored.places)
        return stored, outcome


class Lane:
    """A bounded queue to one secondary and one worker, which lives while there is work.

    Whoever offers never waits: what cannot be taken now is skipped and counted.

    Args:
        member: The secondary.
        carrier: Carries blocks to it.
        breaker: Leaves it alone after a failure.
        settings: How much may wait for it, and be remembered for it.

    Attributes:
        counts: What was done so far.
    """

    def __init__(
        self,
        member: Endpoint,
        carrier: Carrier,
        breaker: Breaker,
        settings: CascadeSettings,
    ) -> None:
        self.counts = CascadeCounts()
        self._member = member
        self._carrier = carrier
        self._breaker = breaker
        self._queue = _Waiting(settings.queue_blocks)
        self._missed = _Waiting(settings.catch_up_blocks if settings.catch_up else 0)
        # A secondary that is down is looked at again after so many seconds.
        self._look_again = settings.pause
        self._arrived = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None
        self._closed = False

    def offer(self, stored: StoredBlocks) -> Outcome:
        """Take blocks to be carried; return what will have become of them."""
        outcome: Outcome = asyncio.get_running_loop().create_future()
        skip = self._refusal()
        if skip is None and not self._queue.fits(len(stored.places)):
            skip = Skip.BUSY
        if skip is not None:
            self._skip(stored, outcome, skip)
        else:
            self._queue.put(stored, outcome)
            self._arrived.set()
        self._work_on()
        return outcome

    def stop(self) -> None:
        """Begin to end: what waits is skipped, and the worker stops soon."""
        self._closed = True
        if self._worker is not None:
            self._worker.cancel()
        while self._queue.offers:
            self._skip(*self._queue.take(), Skip.CLOSED)
        self._missed = _Waiting(0)

    async def close(self) -> None:
        """Stop, and wait until the worker has ended. Closing twice is harmless."""
        self.stop()
        if self._worker is not None:
            await asyncio.gather(self._worker, return_exceptions=True)

    def _refusal(self) -> Skip | None:
        if self._closed:
            return Skip.CLOSED
        if len(self._member.node_ids) > 1:
            return Skip.SEVERAL
        if self._member.down or not self._member.node_ids:
            return Skip.DOWN
        return Skip.PAUSED if self._breaker.is_open else None

    def _skip(self, stored: StoredBlocks, outcome: Outcome, skip: Skip) -> None:
        # What is sent later was told, and counted, when it was skipped.
        if not outcome.done():
            self.counts.skipped[skip] += len(stored.places)
            outcome.set_result(self._told(stored, Carried(), skip))
        if skip is not Skip.SEVERAL:
            self._remember(stored)

    def _remember(self, stored: StoredBlocks) -> None:
        """Keep blocks to send them later, when that is wanted; the oldest go first."""
        if self._closed or not self._missed.limit or not stored.places:
            return
        missed = self._missed
        while not missed.fits(len(stored.places)):
            self.counts.dropped += len(missed.take()[0].places)
        told: Outcome = asyncio.get_running_loop().create_future()
        told.set_result(SecondaryOutcome(self._member.endpoint, ()))
        missed.put(stored, told)

    def _work_on(self) -> None:
        wanted = self._queue.offers or self._missed.offers
        if wanted and self._worker is None and not self._closed:
            self._worker = asyncio.create_task(self._work())
            self._worker.add_done_callback(self._worked)

    async def _work(self) -> None:
        while self._queue.offers or self._missed.offers:
            if self._queue.offers:
                await self._carry(*self._queue.take())
            elif self._refusal() is None:
                await self._carry(*self._missed.take())
            else:
                await self._pause()

    def _worked(self, _: object) -> None:
        self._worker = None
        self._work_on()

    async def _pause(self) -> None:
        """Wait until it may work again, or something else is offered."""
        self._arrived.clear()
        pause = self._breaker.pause_left or self._look_again
        try:
            async with asyncio.timeout(pause):
                await self._arrived.wait()
        except TimeoutError:
            return

    async def _carry(self, stored: StoredBlocks, outcome: Outcome) -> None:
        skip = self._refusal()
        if skip is not None:
            self._skip(stored, outcome, skip)
            return
        carried, error = Carried(), None
        try:
            await self._carrier.carry(stored, carried)
        except asyncio.CancelledError:
            skip = Skip.CLOSED
            raise
        except Exception as refused:  # noqa: BLE001 - a worker that ends unseen lets its callers wait for ever
            error = _typed(refused)
        finally:
            self.counts.add(carried.results.values(), len(stored.places))
            if not outcome.done():
                outcome.set_result(self._told(stored, carried, skip, carried.error or error))
        about_these = isinstance(carried.error, InvalidArgumentError)
        if about_these or (carried.error and carried.error.reason in _OF_THE_NAMESPACE):
            # Others may be sent, and these would be refused again.
            return
        trouble = carried.error or (error if isinstance(error, _PASSING) else None)
        if trouble is not None or FAILED in carried.results.values():
            self._breaker.failed((trouble.retry_after if trouble is not None else None) or 0.0)
            self._remember(_rest(stored, carried))
        elif error is None:
            self._breaker.worked()

    def _told(
        self,
        stored: StoredBlocks,
        carried: Carried,
        skip: Skip | None,
        error: KvtierError | None = None,
    ) -> SecondaryOutcome:
        keys = stored.runs.keys
        known = {keys[place]: result for place, result in carried.results.items()}
        results = tuple([known.get(key, NOTHING) for key in keys])
        return SecondaryOutcome(self._member.endpoint, results, skip, error)


def _rest(stored: StoredBlocks, carried: Carried) -> StoredBlocks:
    """Return the blocks of a store that did not come and may come later."""
    places = [p for p in stored.places if carried.results.get(p, FAILED) == FAILED]
    return stored._replace(places=places)


def _typed(error: Exception) -> KvtierError:
    if isinstance(error, KvtierError):
        return error
    return typed(grpc.StatusCode.UNKNOWN, "", f"{type(error).__name__}: {error}")
