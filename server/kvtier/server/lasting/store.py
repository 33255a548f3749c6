"""Moving blocks between memory and a shelf, in threads of the tier's own."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import Any, TypeVar

import numpy as np
import structlog
from xxhash import xxh3_64_intdigest

from kvtier.server.lasting.health import Health
from kvtier.server.lasting.lane import Job, Lane, StalledError
from kvtier.server.lasting.moving import Moving, Outcome
from kvtier.server.lasting.record import Record, encode_header
from kvtier.server.lasting.shelf import DamagedError, FullError, MissingError, Shelf, ShelfError
from kvtier.server.lasting.tidying import Doomed, Tidying
from kvtier.server.stores.base import Bytes
from kvtier.v1.block_pb2 import Locality, Medium

T = TypeVar("T")
NO_ANSWER = "it does not answer"

_log = structlog.get_logger(__name__)


class LastingStore:
    """A shelf, the threads that use it, and the condition that it is in.

    Blocks whose slots were freed are deleted from the shelf before anything more is written to it,
    so that what lies there never exceeds the capacity by more than what is being written.

    All methods but those that say otherwise belong to the event loop.

    Args:
        shelf: Where the blocks are.
        lane: The threads.
        health: The condition.
        medium: The kind of storage, FS or OBJ.
        capacity_bytes: Bytes that blocks may take.
        part_bytes: Blocks of more bytes than that are moved by several threads.

    Attributes:
        device: What really holds the bytes.
        locality: Where that is.
        serials: Gives the numbers of writes.
    """

    def __init__(
        self,
        shelf: Shelf,
        lane: Lane,
        health: Health,
        *,
        medium: Medium.ValueType,
        capacity_bytes: int,
        part_bytes: int = 1 << 20,
    ) -> None:
        self.shelf = shelf
        self.health = health
        self.medium: int = medium
        self.capacity_bytes = capacity_bytes
        is_local = medium == Medium.MEDIUM_FS
        self.device = "file-system" if is_local else "object-store"
        self.locality = Locality.LOCALITY_LOCAL if is_local else Locality.LOCALITY_REMOTE
        self.serials: Iterator[int] = count(1)
        self._lane = lane
        self._part_bytes = part_bytes
        self._tidying = Tidying(shelf)
        self._sweep: Job[None] | None = None
        self._stuck: set[asyncio.Future[Any]] = set()

    def save(self, records: Sequence[Record], blocks: Sequence[Bytes]) -> Moving:
        """Begin to write blocks, whose memory stays as it is until `ended` or the deadline."""
        jobs = []
        for some, arrays in self._parts(records, blocks):
            job = self._lane.start(partial(self._save, some, arrays))
            job.ended.add_done_callback(partial(self._forget_late, some, job))
            jobs.append((len(some), job))
        return Moving(jobs, self._give_up)

    def load(self, records: Sequence[Record], blocks: Sequence[Bytes]) -> Moving:
        """Begin to fill arrays with blocks, and to compare these with what was written.

        While the shelf does not answer that fails at once.
        """
        start = partial(Job, timeout=0.0) if self.stands_still else self._lane.start
        jobs = [
            (len(some), start(partial(self._load, some, arrays)))
            for some, arrays in self._parts(records, blocks)
        ]
        return Moving(jobs, self._give_up)

    def describe(self, fingerprint: bytes, description: Callable[[], bytes]) -> None:
        """Have a namespace's description on the shelf before anything more is written to it.

        Args:
            fingerprint: The namespace's fingerprint.
            description: Gives its description; called when this life has not described it yet.
        """
        self._tidying.describe(fingerprint, description)

    def describe_again(self) -> None:
        """Have namespaces described anew: what is lost from the shelf may be more than blocks."""
        self._tidying.describe_again()

    def forget(self, fingerprint: bytes) -> None:
        """Remove a namespace's description in the background, after what was discarded so far."""
        self._tidying.forget(fingerprint)
        self._begin_sweep()

    def discard(self, names: Doomed) -> None:
        """Delete blocks in the background, and before anything more is written."""
        self._tidying.discard(names)
        self._begin_sweep()

    @property
    def timeout(self) -> float:
        """How long an operation may take, in seconds."""
        return self._lane.timeout

    def threads_for(self, total: int) -> int:
        """Return how many threads pay for background work on so many bytes; one is left free."""
        return max(1, min(self._lane.width - 1, total // self._part_bytes))

    @property
    def stands_still(self) -> bool:
        """Whether the shelf does not answer: threads are stuck in it."""
        return bool(self._stuck) and self.health.trouble == NO_ANSWER

    @property
    def doomed(self) -> int:
        """How many blocks are still to be deleted."""
        return self._tidying.doomed

    async def flush(self) -> None:
        """Wait until what was discarded and forgotten before is gone from the shelf.

        It takes as long as it must while blocks go: only each step has a deadline.

        Raises:
            ShelfError: When it cannot be deleted now; it will be when the shelf works again.
        """
        done = self._tidying.so_far()
        while not done():
            await self.run(self._tidying.step)

    async def run(self, work: Callable[[], T]) -> T:
        """Do something with the shelf in a thread, and note what is the matter with it.

        Raises:
            ShelfError: When the shelf fails, or does not answer in time.
        """
        job = self._lane.start(lambda _: work())
        try:
            return await job.result()
        except StalledError as error:
            self._give_up(job)
            raise ShelfError(NO_ANSWER) from error
        except ShelfError as error:
            self._fault(error)
            raise

    def close(self) -> None:
        """Let others have the shelf; what is stuck in it is left to itself."""
        self._lane.close()
        self.shelf.close()

    # In threads

    def _save(
        self, records: Sequence[Record], blocks: Sequence[Bytes], job: Job[list[Outcome]]
    ) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for record, block in zip(records, blocks, strict=True):
            if job.abandoned:
                outcomes.append(Outcome.FAILED)
                continue
            if xxh3_64_intdigest(block.data) != record.checksum:
                outcomes.append(Outcome.DIFFERS)
                continue
            try:
                self._tidying.finish()
                self.shelf.put(
                    record.name,
                    [encode_header(record), block.data],
                    lambda: not job.abandoned,
                )
            except ShelfError as error:
                self._note(job, error)
                outcomes += [Outcome.FAILED] * (len(records) - len(outcomes))
                break
            outcomes.append(Outcome.DONE)
        return outcomes

    def _load(
        self, records: Sequence[Record], blocks: Sequence[Bytes], job: Job[list[Outcome]]
    ) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for record, block in zip(records, blocks, strict=True):
            if job.abandoned:
                outcomes.append(Outcome.FAILED)
                continue
            try:
                outcomes.append(self._load_one(record, block))
            except ShelfError as error:
                self._note(job, error)
                outcomes.append(Outcome.FAILED)
        return outcomes

    def _load_one(self, record: Record, block: Bytes) -> Outcome:
        expected = encode_header(record)
        header: Bytes = np.empty(len(expected), np.uint8)
        try:
            self.shelf.get(record.name, [header, block])
        except MissingError:
            return Outcome.MISSING
        except DamagedError:
            return Outcome.DAMAGED
        same = header.tobytes() == expected and xxh3_64_intdigest(block.data) == record.checksum
        return Outcome.DONE if same else Outcome.DAMAGED

    def _note(self, job: Job[list[Outcome]], error: ShelfError) -> None:
        # A job that was given up fails because of that; whoever gave it up knows why.
        if not job.abandoned:
            job.call_on_loop(self._fault, error)

    # Inside, on the loop

    def _give_up(self, job: Job[Any]) -> None:
        """Note that a job was given up, and that the shelf stands still if that is why."""
        if not self._lane.stands_still(job):
            return
        if not job.ended.done():
            self._stuck.add(job.ended)
            job.ended.add_done_callback(self._stuck.discard)
        self.health.fault(NO_ANSWER)

    def _fault(self, error: ShelfError) -> None:
        self.health.fault(str(error), full=isinstance(error, FullError))

    def _begin_sweep(self) -> None:
        if self._tidying.waits and (self._sweep is None or self._sweep.ended.done()):
            self._sweep = self._lane.start(lambda _: self._tidying.step())
            self._sweep.ended.add_done_callback(self._swept)

    def _swept(self, swept: asyncio.Future[None]) -> None:
        if swept.exception() is None:
            self._begin_sweep()
        self._told_of(swept)

    def _told_of(self, tidied: asyncio.Future[None]) -> None:
        """Note what went wrong with what nobody waits for."""
        error = tidied.exception()
        if isinstance(error, ShelfError):
            self._fault(error)
        elif error is not None and not isinstance(error, StalledError):
            _log.error("what is not needed could not be deleted", exc_info=error)

    def _forget_late(
        self,
        records: Sequence[Record],
        job: Job[list[Outcome]],
        ended: asyncio.Future[list[Outcome]],
    ) -> None:
        """Delete what was written after everybody had stopped waiting for it, whole or in part."""
        if not job.abandoned or ended.exception() is not None:
            return
        late = list(zip(records, ended.result(), strict=True))
        self.discard([record.name for record, outcome in late if outcome is Outcome.DONE])
        if job.began is not None and any(outcome is Outcome.FAILED for _, outcome in late):
            # It may have left something that it could not remove: a probe does, or healing begins.
            probe = self._lane.start(lambda _: self.shelf.probe(0))
            probe.ended.add_done_callback(self._told_of)

    def _parts(
        self, records: Sequence[Record], blocks: Sequence[Bytes]
    ) -> Iterator[tuple[Sequence[Record], Sequence[Bytes]]]:
        """Cut blocks into runs for the threads, of about as many bytes each."""
        total = sum(block.size for block in blocks)
        parts = max(1, min(self._lane.width, len(blocks), total // self._part_bytes))
        step = -(-len(blocks) // parts)
        for first in range(0, len(blocks), max(1, step)):
            yield records[first : first + step], blocks[first : first + step]
