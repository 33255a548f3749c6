"""The relay does to requests what was planned, and to others nothing."""

import time

from tests.s3 import faults
from tests.s3.faults import Fault, Kind, Request
from tests.s3.relay import Relay
from tests.s3.shelves import Place, block, get, put


def test_what_is_not_planned_for_passes(place: Place, relay: Relay) -> None:
    """Requests and answers pass unchanged, and are noted."""
    shelf = place.open(relay.endpoint)
    put(shelf, 1)

    assert get(shelf, 1)[1].tobytes() == block(1).tobytes()
    assert [request.method for request in relay.requests] == ["GET", "PUT", "PUT", "GET"]


def test_a_flipped_bit_is_one_bit(place: Place, relay: Relay) -> None:
    """One bit of the answer is another, and the length is what it was."""
    shelf = place.open(relay.endpoint)
    put(shelf, 1)
    relay.plan = faults.first(Fault(Kind.FLIP, 205))

    changed = bytearray(get(shelf, 1)[1].tobytes())

    changed[5] ^= 1
    assert changed == block(1).tobytes()


def test_a_delayed_request_is_late(place: Place, relay: Relay) -> None:
    """A request that is held back is answered after that time."""
    shelf = place.open(relay.endpoint)
    put(shelf, 1)
    relay.plan = faults.first(Fault(Kind.DELAY, 0.2))
    begin = time.monotonic()

    get(shelf, 1)

    assert time.monotonic() - begin >= 0.2


def test_a_lost_request_differs_from_a_lost_answer(place: Place, relay: Relay) -> None:
    """Only where the answer is lost, the next attempt finds that the server did its work."""
    shelf = place.open(relay.endpoint)

    relay.plan, before = faults.first(Fault(Kind.RESET)), len(relay.requests)
    put(shelf, 1)
    assert [request.method for request in relay.requests[before:]] == ["PUT", "PUT"]

    relay.plan, before = faults.first(Fault(Kind.LOSE)), len(relay.requests)
    put(shelf, 2)
    assert [request.method for request in relay.requests[before:]] == ["PUT", "PUT", "GET"]


def test_chance_is_repeatable() -> None:
    """The same seed gives the same faults, about as often as was asked for."""
    chances = {Fault(Kind.RESET): 0.1, Fault(Kind.STATUS, 503): 0.2}
    request = Request("GET", "/")
    one, two = faults.by_chance(7, chances), faults.by_chance(7, chances)

    given = [one(request) for _ in range(1000)]

    assert given == [two(request) for _ in range(1000)]
    assert 50 < given.count(Fault(Kind.RESET)) < 150
    assert 130 < given.count(Fault(Kind.STATUS, 503)) < 270
