"""Few lines of what happens often, and a number for the rest."""

import asyncio

from kvtier.server.observing.rationing import Ration
from tests.waiting import until

Told = list[tuple[str, int]]


def ration(told: Told, seconds: float = 0.05) -> Ration:
    return Ration(3, seconds, lambda kind, left_out: told.append((kind, left_out)))


async def test_the_rest_of_a_time_is_told_as_a_number() -> None:
    """Each kind has its own few; when the time is over the rest is told without a further line."""
    told: Told = []
    few = ration(told)

    admitted = [few.admits("a") for _ in range(10)] + [few.admits("b")]
    await until(lambda: told)

    assert admitted == [True] * 3 + [False] * 7 + [True]
    assert told == [("a", 7)]


async def test_a_new_time_has_its_own_lines() -> None:
    """What came before does not count any more."""
    told: Told = []
    few = ration(told)
    for _ in range(4):
        few.admits("a")
    await until(lambda: told)

    assert [few.admits("a") for _ in range(4)] == [True, True, True, False]
    few.close()


async def test_who_stops_tells_what_was_left_out_so_far() -> None:
    """Nothing is told twice."""
    told: Told = []
    few = ration(told, seconds=0.02)
    for _ in range(5):
        few.admits("a")

    few.close()
    few.close()
    await asyncio.sleep(0.05)

    assert told == [("a", 2)]
