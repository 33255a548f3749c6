"""What failed is left alone for a while."""

from kvtier.client.proxy.breaker import Breaker

from .manual_time import ManualTime


def test_the_pause_doubles_up_to_a_limit() -> None:
    """Each failure opens it anew, for longer."""
    time = ManualTime()
    breaker = Breaker(pause=1.0, longest=3.0, clock=time.clock)

    pauses = []
    for _ in range(4):
        breaker.failed()
        pauses.append(breaker.pause_left)
        time.advance(breaker.pause_left)

    assert pauses == [1.0, 2.0, 3.0, 3.0]
    assert not breaker.is_open


def test_what_works_starts_over() -> None:
    """It is closed at once, and the next pause is the shortest."""
    time = ManualTime()
    breaker = Breaker(pause=1.0, longest=8.0, clock=time.clock)
    breaker.failed()
    breaker.failed()

    breaker.worked()
    closed = not breaker.is_open
    breaker.failed()

    assert closed
    assert breaker.pause_left == 1.0


def test_who_failed_may_ask_for_more() -> None:
    """But not for more than the limit."""
    breaker = Breaker(pause=1.0, longest=5.0, clock=ManualTime().clock)

    breaker.failed(at_least=3.0)
    asked = breaker.pause_left
    breaker.failed(at_least=60.0)

    assert (asked, breaker.pause_left) == (3.0, 5.0)
