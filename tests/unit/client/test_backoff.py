"""Pauses between tries are spread out and bounded."""

import random

from kvtier.client import Backoff


def test_a_pause_lies_anywhere_below_a_bound_that_doubles() -> None:
    """The chance decides how much of the bound is waited: all of it here."""
    backoff = Backoff(base=0.1, cap=5.0, random=lambda: 1.0)

    pauses = [backoff.next() for _ in range(8)]

    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


def test_jitter_is_full() -> None:
    """Pauses of many clients fill the whole range from nothing to the bound."""
    chance = random.Random(1)

    pauses = [Backoff(base=1.0, random=chance.random).next() for _ in range(1000)]

    assert min(pauses) < 0.05
    assert max(pauses) > 0.95
    assert all(0 <= pause <= 1 for pause in pauses)


def test_a_least_pause_is_kept_but_not_beyond_half_the_cap() -> None:
    """What the other side asked for is waited; the rest of the cap is for chance."""
    chance = random.Random(1)
    soonest = Backoff(random=lambda: 0.0)
    any_time = Backoff(base=60.0, random=chance.random)

    assert soonest.next(at_least=1.5) == 1.5
    assert soonest.next(at_least=60.0) == soonest.cap / 2 == 2.5
    pauses = [any_time.next(at_least=60.0) for _ in range(1000)]
    assert min(pauses) < 2.6
    assert 4.9 < max(pauses) <= 5.0


def test_those_who_are_asked_to_wait_do_not_come_back_in_step() -> None:
    """A node asks everybody for the same pause; the random part comes on top of it."""
    chance = random.Random(1)

    pauses = [Backoff(base=1.0, random=chance.random).next(at_least=1.0) for _ in range(1000)]

    assert min(pauses) < 1.05
    assert max(pauses) > 1.95
    assert all(1 <= pause <= 2 for pause in pauses)


def test_reset_starts_over() -> None:
    """After a reset the bound is the first one again."""
    backoff = Backoff(base=0.1, random=lambda: 1.0)
    for _ in range(5):
        backoff.next()

    backoff.reset()

    assert backoff.next() == 0.1
