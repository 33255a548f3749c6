"""Copying in threads, and several batches at one time."""

import asyncio
import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import grpc
import pytest
from xxhash import xxh3_64_intdigest

from kvtier.client import FailedPreconditionError, KvtierError
from kvtier.client.mapped.buffers import address_of
from kvtier.client.mapped.copies import INLINE_BYTES, PIECE_BYTES, Copy, Workers, copy_all, hash_all
from kvtier.client.mapped.overlap import overlapped


@pytest.fixture
def workers() -> Iterator[Workers]:
    workers = Workers(2)
    yield workers
    workers.close()


@pytest.mark.parametrize("size", [1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES - 1])
def test_a_copy_is_exact_and_its_checksum_is_that_of_the_whole(size: int) -> None:
    """Whatever pieces it is done in."""
    source = bytes(range(256)) * (size // 256 + 1)
    target = memoryview(bytearray(size + 2))
    job = Copy(target[1:-1], address_of(target) + 1, address_of(memoryview(source)))

    (checksum,) = copy_all([job])

    assert target == b"\0" + source[:size] + b"\0"
    assert checksum == xxh3_64_intdigest(source[:size])
    assert hash_all([target[1:-1]]) == [checksum]


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("size", [0, INLINE_BYTES + 1])
async def test_results_come_in_the_order_of_the_jobs(
    workers: Workers, count: int, size: int
) -> None:
    """In threads and on the loop."""
    assert await workers.run(list, range(count), size) == list(range(count))


async def test_only_threads_that_have_nothing_to_do_share_a_batch(workers: Workers) -> None:
    """Where all are busy a batch is one piece of work: cutting it up would bring nothing."""
    go = threading.Event()
    parts: list[int] = []

    def hold(jobs: Sequence[int]) -> list[int]:
        go.wait()
        return list(jobs)

    def count(jobs: Sequence[int]) -> list[int]:
        parts.append(len(jobs))
        return list(jobs)

    await workers.run(count, range(4), INLINE_BYTES + 1)
    held = asyncio.create_task(workers.run(hold, range(4), INLINE_BYTES + 1))
    await asyncio.sleep(0)
    later = asyncio.create_task(workers.run(count, range(4), INLINE_BYTES + 1))
    await asyncio.sleep(0)
    go.set()
    await asyncio.gather(held, later)
    await workers.run(count, range(4), INLINE_BYTES + 1)

    assert parts == [2, 2, 4, 2, 2]


async def test_a_caller_that_is_cancelled_waits_for_its_threads(workers: Workers) -> None:
    """What is copied must not be given away before, however often the caller is cancelled."""
    begun, go = threading.Event(), threading.Event()
    done: list[int] = []

    def work(jobs: Sequence[int]) -> list[int]:
        begun.set()
        go.wait()
        done.extend(jobs)
        return list(jobs)

    task = asyncio.create_task(workers.run(work, [1], INLINE_BYTES + 1))
    await asyncio.to_thread(begun.wait)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0.01)
    waiting = not task.done()
    go.set()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert (waiting, done) == (True, [1])


@pytest.mark.parametrize("begun", [0, 1])
async def test_a_copy_that_comes_after_the_end_of_the_threads_is_refused(
    workers: Workers, monkeypatch: pytest.MonkeyPatch, begun: int
) -> None:
    """It is told what any call on closed blocks is told, once no thread copies for it any more."""
    submit, submitted, done = workers._pool.submit, itertools.count(), list[int]()

    def work(jobs: Sequence[int]) -> list[int]:
        time.sleep(0.05)
        done.extend(jobs)
        return list(jobs)

    def closing(*call: Any) -> Any:
        if next(submitted) == begun:
            threading.Thread(target=workers.close).start()
            while not workers._pool._shutdown:
                time.sleep(0.001)
        return submit(*call)

    monkeypatch.setattr(workers._pool, "submit", closing)

    with pytest.raises(FailedPreconditionError, match="the blocks are closed; make new ones"):
        await workers.run(work, [1, 2], INLINE_BYTES + 1)
    assert done == [1][:begun]


async def test_batches_overlap_up_to_the_window_and_answer_in_order() -> None:
    """The first ends last here, and one fails."""
    under_way, most = 0, 0

    async def act(item: int) -> int:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.02 if not item else 0)
        under_way -= 1
        if item == 3:
            raise KvtierError(grpc.StatusCode.ABORTED, "", "no")
        return item

    results = await overlapped(range(6), act, 3)

    assert [each if isinstance(each, int) else str(each) for each in results] == [
        *(0, 1, 2),
        "no (ABORTED)",
        *(4, 5),
    ]
    assert most == 3


async def test_an_error_of_another_kind_ends_every_batch() -> None:
    """It is a mistake of the caller; nothing is left under way."""
    ended: list[int] = []

    async def act(item: int) -> int:
        try:
            if item:
                raise ValueError("mistake")
            await asyncio.Event().wait()
        finally:
            ended.append(item)
        return item

    with pytest.raises(ValueError, match="mistake"):
        async with asyncio.timeout(5):
            await overlapped(reversed(range(2)), act, 2)
    assert sorted(ended) == [0, 1]
