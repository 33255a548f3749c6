"""The queue and the worker of one secondary."""

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
import pytest

from kvtier.client.errors import typed
from kvtier.client.proxy.breaker import Breaker
from kvtier.client.proxy.cascades.carrying import Carried, Carrier, StoredBlocks
from kvtier.client.proxy.cascades.cascade import (
    COPIED,
    FAILED,
    MISS,
    PRESENT,
    SecondaryOutcome,
    Skip,
)
from kvtier.client.proxy.cascades.lane import Lane
from kvtier.client.proxy.settings import CascadeSettings
from kvtier.v1.result_pb2 import CopyResult
from kvtier.wire.errors import Reason, unavailable
from tests.waiting import until

from .managing import Member, member, runs_of
from .manual_time import ManualTime

UNSPECIFIED = CopyResult.COPY_RESULT_UNSPECIFIED
GONE = unavailable("gone", Reason.INTERNAL)


class FakeCarrier(Carrier):
    """Does with the blocks of each store what a test says.

    Attributes:
        carried: The places of the blocks of every store, in order.
        open: Stores wait until it is set.
        does: What becomes of the blocks of a store.
    """

    def __init__(self) -> None:
        self.carried: list[list[int]] = []
        self.open = asyncio.Event()
        self.open.set()
        self.does: Callable[[StoredBlocks, Carried], None] = copy

    async def carry(self, stored: StoredBlocks, into: Carried) -> None:
        self.carried.append(list(stored.places))
        await self.open.wait()
        self.does(stored, into)


def copy(stored: StoredBlocks, into: Carried) -> None:
    into.results.update(dict.fromkeys(stored.places, COPIED))


def fail(stored: StoredBlocks, into: Carried) -> None:
    into.error = GONE


def refuse(code: grpc.StatusCode) -> Callable[[StoredBlocks, Carried], None]:
    def carry(stored: StoredBlocks, into: Carried) -> None:
        raise typed(code, "", "the primary refused")

    return carry


class Laid:
    """A lane to a secondary that a test makes up."""

    def __init__(self, **settings: Any) -> None:
        self.time = ManualTime()
        self.carrier = FakeCarrier()
        self.member: Member = member("a")
        self.breaker = Breaker(pause=1.0, longest=4.0, clock=self.time.clock)
        how = CascadeSettings(**{"pause": 0.01, **settings})
        self.lane = Lane(self.member, self.carrier, self.breaker, how)

    def offer(self, *numbers: int) -> asyncio.Future[SecondaryOutcome]:
        runs = runs_of(numbers)
        return self.lane.offer(StoredBlocks("cpu0", runs, runs.once(range(len(numbers))), ""))


async def test_stores_are_carried_in_their_order() -> None:
    """One at a time, and the worker ends when there is no more."""
    laid = Laid()

    outcomes = [await each for each in [laid.offer(1, 2), laid.offer(3)]]

    assert [each.results for each in outcomes] == [(COPIED,) * 2, (COPIED,)]
    assert laid.carrier.carried == [[0, 1], [0]]
    assert laid.lane.counts.sent == 3
    await until(lambda: laid.lane._worker is None)


async def test_a_block_named_twice_is_told_twice_and_counted_once() -> None:
    """It was sent once."""
    laid = Laid()

    outcome = await laid.offer(1, 2, 1)

    assert outcome.results == (COPIED,) * 3
    assert laid.lane.counts.sent == 2


async def test_each_result_is_counted() -> None:
    """What is there already and what the primary lost are no failures."""
    laid = Laid()
    results = [COPIED, PRESENT, MISS, CopyResult.COPY_RESULT_NO_ROOM]
    laid.carrier.does = lambda _, into: into.results.update(enumerate(results))

    outcome = await laid.offer(1, 2, 3, 4, 5)

    counts = laid.lane.counts
    assert outcome.results == (*results, UNSPECIFIED)
    assert (counts.sent, counts.present, counts.gone, counts.failed) == (1, 1, 1, 2)


async def test_a_full_queue_skips() -> None:
    """What is larger than the queue is let in alone."""
    laid = Laid(queue_blocks=2)
    laid.carrier.open.clear()
    under_way = laid.offer(1)
    await until(lambda: laid.carrier.carried)

    outcomes = [laid.offer(1, 2, 3), laid.offer(4)]
    skipped = [each.done() for each in outcomes]
    laid.carrier.open.set()

    assert skipped == [False, True]
    assert (await outcomes[1]).skipped is Skip.BUSY
    assert (await outcomes[0]).skipped is (await under_way).skipped is None
    assert laid.lane.counts.skipped == {Skip.BUSY: 1}


@pytest.mark.parametrize(
    ("nodes", "down", "skip"),
    [
        (["a"], True, Skip.DOWN),
        ([], False, Skip.DOWN),
        (["a", "b"], False, Skip.SEVERAL),
    ],
)
async def test_one_that_cannot_be_asked_is_skipped(
    nodes: list[str], down: bool, skip: Skip
) -> None:
    """At once, and nothing is carried."""
    laid = Laid()
    laid.member.node_ids, laid.member.down = nodes, down

    outcome = await laid.offer(1)

    assert outcome.skipped is skip
    assert outcome.results == (UNSPECIFIED,)
    assert laid.carrier.carried == []


async def test_one_that_failed_is_skipped_for_a_while() -> None:
    """What waited behind the failure, too; after the pause it is asked again."""
    laid = Laid()
    laid.carrier.does = fail

    failed, waited = laid.offer(1), laid.offer(2)
    outcomes = [await failed, await waited, await laid.offer(3)]
    laid.carrier.does = copy
    laid.time.advance(1.0)
    again = await laid.offer(4)

    assert outcomes[0].error is GONE
    assert [each.skipped for each in outcomes] == [None, Skip.PAUSED, Skip.PAUSED]
    assert again.results == (COPIED,)
    assert laid.lane.counts.failed == 1


async def test_what_the_primary_refuses_is_not_the_secondarys_fault() -> None:
    """It is told, and the next store is carried."""
    laid = Laid()
    laid.carrier.does = refuse(grpc.StatusCode.NOT_FOUND)
    refused = await laid.offer(1)
    laid.carrier.does = copy

    assert "refused" in str(refused.error)
    assert (await laid.offer(2)).results == (COPIED,)


async def test_blocks_that_the_secondary_calls_invalid_hold_up_no_others() -> None:
    """They are not sent again, and nothing is skipped for them."""
    laid = Laid(catch_up=True)

    def call_invalid(stored: StoredBlocks, into: Carried) -> None:
        into.error = typed(grpc.StatusCode.INVALID_ARGUMENT, "", "the parent is elsewhere")

    laid.carrier.does = call_invalid
    refused = await laid.offer(1)
    laid.carrier.does = copy

    assert "elsewhere" in str(refused.error)
    assert (await laid.offer(2, 3)).results == (COPIED,) * 2
    await until(lambda: laid.lane._worker is None)
    assert laid.carrier.carried == [[0], [0, 1]]


@pytest.mark.parametrize(
    "reason", [Reason.NAMESPACE_DIFFERS, Reason.NAMESPACE_LIMIT, Reason.BLOCK_TOO_LARGE]
)
async def test_what_a_secondary_refuses_of_one_namespace_holds_up_no_other(reason: Reason) -> None:
    """It is told and counted, the next store is carried, and it is not tried again for ever."""
    laid = Laid(catch_up=True)

    def refuse_it(stored: StoredBlocks, into: Carried) -> None:
        into.error = typed(grpc.StatusCode.FAILED_PRECONDITION, reason, "not this one")

    laid.carrier.does = refuse_it
    refused = await laid.offer(1)
    laid.carrier.does = copy
    carried = await laid.offer(2)
    await until(lambda: laid.lane._worker is None)

    assert "not this one" in str(refused.error)
    assert carried.results == (COPIED,)
    assert laid.lane.counts.failed == 1
    assert len(laid.carrier.carried) == 2


@pytest.mark.parametrize(
    "code",
    [
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    ],
)
async def test_a_primary_that_cannot_now_is_asked_again(code: grpc.StatusCode) -> None:
    """After a pause, by choice; nothing that was missed meanwhile is lost."""
    laid = Laid(catch_up=True)
    laid.carrier.does = refuse(code)
    await laid.offer(1)
    laid.carrier.does = copy
    laid.time.advance(1.0)

    await until(lambda: laid.lane.counts.sent == 1)


async def test_a_worker_outlives_what_nobody_expected() -> None:
    """The error is told, and the lane goes on."""
    laid = Laid()

    def break_down(stored: StoredBlocks, into: Carried) -> None:
        raise ZeroDivisionError

    laid.carrier.does = break_down
    broken = await laid.offer(1)
    laid.carrier.does = copy

    assert "ZeroDivisionError" in str(broken.error)
    assert (await laid.offer(2)).results == (COPIED,)


async def test_what_was_missed_is_sent_when_it_works_again() -> None:
    """By choice: what was skipped, what failed, and what did not come whole; oldest first."""
    laid = Laid(catch_up=True)

    def copy_half(stored: StoredBlocks, into: Carried) -> None:
        into.results.update({0: COPIED, 1: FAILED})

    laid.carrier.does = copy_half
    await laid.offer(1, 2)
    await laid.offer(3)
    laid.carrier.does = copy
    laid.time.advance(1.0)
    await until(lambda: laid.lane.counts.sent == 3)

    assert laid.carrier.carried == [[0, 1], [1], [0]]
    assert laid.lane.counts.skipped == {Skip.PAUSED: 1}
    await until(lambda: laid.lane._worker is None)


async def test_what_is_missed_is_bounded() -> None:
    """The oldest are dropped, and counted."""
    laid = Laid(catch_up=True, catch_up_blocks=2)
    laid.member.down = True
    for number in range(5):
        await laid.offer(number)

    laid.member.down = False
    await until(lambda: laid.lane.counts.sent == 2)

    assert laid.lane.counts.dropped == 3
    assert laid.lane.counts.skipped == {Skip.DOWN: 5}


async def test_new_stores_go_before_what_was_missed() -> None:
    """A secondary that is back is up to date with the present first."""
    laid = Laid(catch_up=True)
    laid.member.down = True
    await laid.offer(1, 2)
    laid.member.down = False
    laid.carrier.open.clear()

    new = laid.offer(3)
    laid.carrier.open.set()
    await new
    await until(lambda: laid.lane.counts.sent == 3)

    assert laid.carrier.carried == [[0], [0, 1]]


async def test_closing_tells_whoever_waits() -> None:
    """What is under way, what waits, and what comes later; and the worker has ended."""
    laid = Laid(catch_up=True)
    laid.carrier.open.clear()
    outcomes = [laid.offer(1), laid.offer(2)]
    await until(lambda: laid.carrier.carried)

    await laid.lane.close()
    outcomes.append(laid.offer(3))

    assert [each.result().skipped for each in outcomes] == [Skip.CLOSED] * 3
    assert laid.lane._worker is None


async def test_closing_before_the_worker_began_tells_whoever_waits() -> None:
    """As after that."""
    laid = Laid()
    outcome = laid.offer(1)

    await laid.lane.close()

    assert outcome.result().skipped is Skip.CLOSED
