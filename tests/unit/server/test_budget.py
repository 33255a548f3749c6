"""Bytes that calls share: waited for in turn, and always given back."""

import asyncio
from collections.abc import Sequence

import pytest

from kvtier.server.transfers.budget import Budget

from .transferring import settle


class Call:
    """A call that takes a share, and keeps it until it is told to end."""

    def __init__(self, budget: Budget, amount: int) -> None:
        self.has_share = False
        self._end = asyncio.Event()
        self.task = asyncio.create_task(self._run(budget, amount))

    async def end(self) -> None:
        self._end.set()
        await self.task
        await settle()

    async def leave(self) -> None:
        self.task.cancel()
        await settle()

    async def _run(self, budget: Budget, amount: int) -> None:
        async with budget.share(amount):
            self.has_share = True
            try:
                await self._end.wait()
            finally:
                self.has_share = False


async def calls(budget: Budget, *amounts: int) -> list[Call]:
    started = [Call(budget, amount) for amount in amounts]
    await settle()
    return started


def sharing(started: Sequence[Call]) -> list[int]:
    return [place for place, call in enumerate(started) if call.has_share]


async def test_calls_wait_in_turn_and_small_ones_do_not_overtake() -> None:
    """A call that needs much gets it, though calls that need little go on coming."""
    budget = Budget(10)
    started = await calls(budget, 6, 8, 2, 2)
    assert sharing(started) == [0]

    await started[0].end()
    assert sharing(started) == [1, 2]
    await started[1].end()

    assert sharing(started) == [2, 3]
    assert budget.used == 4


async def test_a_call_that_needs_more_than_there_is_gets_all() -> None:
    """It is alone meanwhile, rather than refused or waiting for ever."""
    budget = Budget(10)

    started = await calls(budget, 50, 1)

    assert sharing(started) == [0]
    assert budget.used == 10
    await started[0].end()
    assert sharing(started) == [1]


@pytest.mark.parametrize("leaver", [0, 1])
async def test_who_leaves_holds_nothing_and_stands_in_nobodys_way(leaver: int) -> None:
    """Whether it had its share or waited for it."""
    budget = Budget(10)
    started = await calls(budget, 6, 9, 4)
    await started[leaver].leave()

    assert sharing(started) == [[1], [0, 2]][leaver]
    for call in started:
        await call.leave()

    assert budget.used == 0


async def test_who_leaves_in_the_moment_of_its_turn_gives_it_back() -> None:
    """A share that was given to a call which is cancelled before it runs again is not lost."""
    budget = Budget(10)
    first, second = await calls(budget, 10, 10)
    first._end.set()
    await first.task
    second.task.cancel()
    await settle()

    assert budget.used == 0


async def test_nothing_is_spare_while_somebody_waits() -> None:
    """Reading ahead never takes what another call needs to go on at all."""
    budget = Budget(10)
    assert budget.take_spare(4)
    assert not budget.take_spare(7)
    (waiting,) = await calls(budget, 7)

    assert not budget.take_spare(1)
    budget.give_back(4)
    await settle()

    assert waiting.has_share
    assert budget.take_spare(3)
