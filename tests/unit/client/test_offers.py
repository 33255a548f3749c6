"""Offers that a proxy remembers until they are completed."""

from kvtier.client.proxy.cascades.offers import Offered, Offers

from .managing import runs_of


def offer(*numbers: int) -> Offered:
    return Offered("cpu0", runs_of(numbers), (), "")


def test_an_offer_is_taken_once() -> None:
    """A completion that is repeated finds nothing to send on."""
    offers, made = Offers(), offer(1)
    offers.put(b"lease", made)

    assert offers.take(b"lease") is made
    assert offers.take(b"lease") is None


def test_offers_that_nobody_completes_are_bounded_by_their_blocks() -> None:
    """The oldest go, as many as it takes; one that is larger than the limit stays alone."""
    offers = Offers(limit=4)
    for name, numbers in {b"a": [1], b"b": [2, 3], b"c": [4, 5, 6]}.items():
        offers.put(name, offer(*numbers))
    kept = {name for name in (b"a", b"b", b"c") if offers.take(name)}
    offers.put(b"d", offer(1))
    offers.put(b"e", offer(*range(9)))

    assert kept == {b"c"}
    assert offers.take(b"d") is None
    assert offers.take(b"e") is not None


def test_an_offer_that_is_made_again_counts_once() -> None:
    """The caller chose the lease id to be able to repeat the call."""
    offers = Offers(limit=4)
    offers.put(b"other", offer(9))
    for _ in range(3):
        offers.put(b"again", offer(1, 2, 3))

    assert offers.take(b"other") is not None
