"""A loop that is stuck is seen, and so is the loss of what must go on in it."""

import asyncio
import time
from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from kvtier.server.clock import ManualClock
from kvtier.server.health.board import LIVENESS, NOT_SERVING, SERVING, HealthBoard
from kvtier.server.health.liveness import Liveness
from tests.waiting import until

PATIENCE = 5.0


class Watched:
    """A liveness by a clock that the test turns, and what it told."""

    def __init__(self) -> None:
        self.board = HealthBoard()
        self.told: list[bool] = []
        self.clock = ManualClock()
        self.liveness = Liveness(
            self.board, self.told.append, patience=PATIENCE, clock=self.clock.monotonic
        )


@pytest.fixture
def watched() -> Iterator[Watched]:
    watched = Watched()
    yield watched
    watched.liveness.close()


def test_a_loop_that_makes_no_progress_is_stuck_until_it_does(watched: Watched) -> None:
    """It is told once when it is, and once when it is not any more; the log says where it is."""
    watched.liveness.look()
    watched.clock.advance(PATIENCE)
    watched.liveness.look()
    assert watched.told == []

    watched.clock.advance(0.1)
    with capture_logs() as logs:
        watched.liveness.look()
        watched.liveness.look()

    assert watched.told == [True]
    (line,) = logs
    assert "test_a_loop_that_makes_no_progress" in line["at"]


async def test_a_loop_that_gets_on_again_is_well(watched: Watched) -> None:
    """The thread that watches sees both by itself."""
    liveness = Liveness(watched.board, watched.told.append, patience=0.5)
    liveness.start()

    time.sleep(2)  # noqa: ASYNC251 - this is what is seen
    stuck = list(watched.told)
    await until(lambda: watched.told[-1:] == [False])
    liveness.close()

    assert stuck == [True]


async def test_what_must_go_on_and_fails_takes_the_life(watched: Watched) -> None:
    """Others that end as they should, or are cancelled, do not."""

    async def fail() -> None:
        raise ZeroDivisionError

    watched.liveness.start()
    well, ended = asyncio.create_task(asyncio.sleep(0)), asyncio.create_task(asyncio.sleep(60))
    watched.liveness.needs([well, ended])
    ended.cancel()
    await asyncio.wait([well, ended])
    await asyncio.sleep(0)
    assert watched.board[LIVENESS] == SERVING

    failing = asyncio.create_task(fail())
    with capture_logs() as logs:
        watched.liveness.needs([failing])
        await until(lambda: watched.board[LIVENESS] == NOT_SERVING)

    assert logs[-1]["log_level"] == "critical"
