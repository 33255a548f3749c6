"""The log holds the newest batches, and never more than it may."""

import asyncio
import gc
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtier.server.events.log import EventLog, Lagged
from kvtier.server.events.parts import CLEARED, REMOVED, STORED, Part
from kvtier.v1.event_service_pb2 import EventBatches

from .timing import side_by_side
from .virtual_time import now, patient, virtual_time


def _part(field: int = CLEARED, size: int = 10, full: bytes | None = None) -> Part:
    data = b"\x0a" + bytes([size]) + b"t" * size
    return Part(field, 0, 2, b"", data, full or data, 1)


def _log(max_batches: int = 4, max_bytes: int = 1 << 20) -> EventLog:
    return EventLog(epoch=7, max_batches=max_batches, max_bytes=max_bytes)


def test_sequences_start_at_one_without_a_gap() -> None:
    """Before the first batch the head is 0; each batch is one more."""
    log = _log()

    before = (log.head, log.oldest)
    sequences = [log.append([_part()]) for _ in range(6)]

    assert before == (0, 0)
    assert sequences == [1, 2, 3, 4, 5, 6]
    assert (log.head, log.oldest) == (6, 2)


@patient
@given(
    st.lists(st.integers(1, 120), max_size=60), st.integers(1, 9), st.sampled_from([1, 200, 900])
)
def test_the_ring_keeps_the_newest_batches_within_both_bounds(
    sizes: list[int], max_batches: int, max_bytes: int
) -> None:
    """Count and bytes are bounded; the newest batch is always held; the rest is exact."""
    log, encoded = _log(max_batches, max_bytes), []

    for size in sizes:
        log.append([_part(size=size)])
        encoded.append(log.read(log.head - 1, log.head)[0].basic)
        held = log.read(log.oldest, log.head)

        assert [entry.basic for entry in held] == encoded[log.oldest :]
        assert log.held_bytes == sum(len(entry.basic) for entry in held)
        assert 1 <= len(held) <= max_batches
        assert log.held_bytes <= max_bytes or len(held) == 1
        room = len(held) < max_batches and log.oldest > 0
        assert not room or log.held_bytes + len(encoded[log.oldest - 1]) > max_bytes


def test_reading_stops_where_the_log_has_forgotten() -> None:
    """The oldest position can be read from, the one before it cannot."""
    log = _log(max_batches=3)
    for _ in range(8):
        log.append([_part()])

    held = log.read(log.oldest, log.head)

    assert [entry.sequence for entry in held] == [6, 7, 8]
    assert log.read(log.head, log.head) == []
    with pytest.raises(Lagged):
        log.read(log.oldest - 1, log.head)


def test_a_batch_larger_than_the_bound_is_held_alone() -> None:
    """An oversized batch pushes all others out, and is itself pushed out by the next."""
    log = _log(max_bytes=100)
    for size in (10, 10, 120, 10):
        log.append([_part(size=size)])
        if size == 120:
            alone = (log.oldest, log.head)

    assert alone == (2, 3)
    assert (log.oldest, log.head) == (3, 4)


def test_both_views_share_their_bytes_where_they_are_equal() -> None:
    """A batch without token ids is held once, one with them twice, and both are counted."""
    log = _log()

    log.append([_part(STORED)])
    once = log.held_bytes
    log.append([_part(STORED, full=b"\x0a\x02tt\x58\x01")])
    same, differing = log.read(0, 2)

    assert same.full is same.basic
    assert once == len(same.basic)
    assert differing.full != differing.basic
    assert log.held_bytes == once + len(differing.basic) + len(differing.full)


def test_a_batch_says_first_what_left_and_then_what_came() -> None:
    """Parts keep their kind and order, and one out of order is refused."""
    log = _log()

    log.append([_part(CLEARED), _part(REMOVED), _part(STORED), _part(STORED)])
    batch = EventBatches.FromString(log.read(0, 1)[0].basic).batches[0]

    assert (len(batch.cleared), len(batch.removed), len(batch.stored)) == (1, 1, 2)
    with pytest.raises(AssertionError):
        log.append([_part(STORED), _part(REMOVED)])
    assert log.head == 1


def test_a_full_log_is_no_work_for_the_garbage_collector() -> None:
    """However many batches are held, the collector has not one object more to walk."""
    log = _log(max_batches=2000)
    gc.collect()
    before = len(gc.get_objects())

    for number in range(2000):
        log.append([_part(STORED, size=number % 100), _part(STORED)])
    gc.collect()

    assert len(gc.get_objects()) - before < 1000


@virtual_time
async def test_a_batch_wakes_everyone_who_waits() -> None:
    """All waiting tasks go on with the batch, long before their time is up."""
    log = _log()
    waiting = [asyncio.create_task(log.wait(0, 60)) for _ in range(3)]
    await asyncio.sleep(1)

    log.append([_part()])
    await asyncio.gather(*waiting)

    assert now() == 1


@virtual_time
async def test_waiting_ends_at_once_for_what_is_there_and_otherwise_in_time() -> None:
    """A head that is beyond the position is not waited for; a quiet log ends the wait in time."""
    log = _log()
    log.append([_part()])

    await log.wait(0, 60)
    at_once = now()
    await log.wait(1, 0)
    without_time = now()
    await log.wait(1, 60)

    assert (at_once, without_time, now()) == (0, 0, 60)


@virtual_time
async def test_a_waiting_task_that_is_cancelled_leaves_the_others_waiting() -> None:
    """Cancelling one waiting task neither wakes nor breaks another."""
    log = _log()
    one, other = (asyncio.create_task(log.wait(0, 60)) for _ in range(2))
    await asyncio.sleep(1)

    one.cancel()
    await asyncio.sleep(1)
    waiting = not other.done()
    log.append([_part()])
    await other

    assert one.cancelled()
    assert waiting
    assert now() == 2


@virtual_time
async def test_appending_costs_the_same_however_many_wait() -> None:
    """With five thousand waiting tasks the time of an append stays that of one without any."""
    quiet, crowded = _log(), _log()
    waiting = [asyncio.create_task(crowded.wait(0, 60)) for _ in range(5000)]
    await asyncio.sleep(0)

    alone, with_waiters = side_by_side(
        partial(quiet.append, [_part()]), partial(crowded.append, [_part()])
    )
    await asyncio.gather(*waiting)

    assert with_waiters < 5 * alone
