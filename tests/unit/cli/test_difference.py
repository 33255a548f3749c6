"""What differs between events and a listing, and what only seems to."""

from collections.abc import Iterable

from kvtier.cli.checking.difference import Blocks, Difference, Facts, Touched, differ
from kvtier.client import BlockKey

TIER = "cpu0"
NAMESPACE = b"n" * 32
FACTS = Facts(b"", 0, "")


def _key(name: str, namespace: bytes = NAMESPACE) -> BlockKey:
    return BlockKey(namespace, 0, b"", name.encode())


def _blocks(names: str, facts: Facts | None = FACTS) -> Blocks:
    return {_key(name): facts for name in names}


def _differ(told: Blocks, listed: Blocks, touched: Touched | None = None) -> Difference:
    return differ(told, listed, (touched or Touched()).within(TIER))


def _touched(names: Iterable[str]) -> Touched:
    touched = Touched()
    touched.add(TIER, map(_key, names))
    return touched


def test_equal_blocks_do_not_differ() -> None:
    """Nothing is found, and nothing is open."""
    assert _differ(_blocks("ab"), _blocks("ab")) == Difference()


def test_a_block_that_no_event_touched_differs_for_certain() -> None:
    """It was there all the time or never: the two cannot both be right."""
    difference = _differ(_blocks("ab"), _blocks("bc"), _touched("b"))

    assert set(difference.only_in_events) == {_key("a")}
    assert set(difference.only_in_listing) == {_key("c")}
    assert (difference.found, difference.open) == (2, set())


def test_a_block_that_came_or_went_meanwhile_proves_nothing() -> None:
    """It stays open, whichever side has it."""
    difference = _differ(_blocks("ab"), _blocks("bc"), _touched("ac"))

    assert difference.found == 0
    assert difference.open == {_key("a"), _key("c")}


def test_what_was_touched_in_another_tier_was_not_touched_here() -> None:
    """Each tier's events are its own."""
    touched = Touched()
    touched.add("other", [_key("a")])

    assert _differ(_blocks("a"), {}, touched).found == 1


def test_a_clear_touches_every_block_of_its_tier_and_namespace() -> None:
    """A clear names no block; one of a namespace leaves the others' blocks untouched."""
    other = b"o" * 32
    told = {_key("a"): FACTS, _key("a", other): FACTS}
    one, every, elsewhere = Touched(), Touched(), Touched()
    one.clear(TIER, other)
    every.clear(TIER, b"")
    elsewhere.clear("other", b"")

    assert _differ(told, {}, one).open == {_key("a", other)}
    assert _differ(told, {}, every).open == set(told)
    assert _differ(told, {}, elsewhere).open == set()


def test_a_block_that_both_describe_differently_differs() -> None:
    """Parent, position and adapter are compared, where both know them."""
    told = {**_blocks("a"), **_blocks("bcd", Facts(b"a", 16, "")), **_blocks("e", None)}
    listed = {
        **_blocks("a"),
        **_blocks("b", Facts(b"x", 16, "")),
        **_blocks("c", Facts(b"a", 32, "")),
        **_blocks("d", Facts(b"a", 16, "adapter")),
        **_blocks("e"),
    }

    difference = _differ(told, listed)

    assert set(difference.unlike) == {_key(name) for name in "bcd"}
    assert difference.unlike[_key("c")] == (Facts(b"a", 16, ""), Facts(b"a", 32, ""))


def test_a_block_that_was_stored_anew_meanwhile_may_be_described_differently() -> None:
    """The listing may describe its former copy."""
    listed = _blocks("a", Facts(b"x", 16, ""))

    assert _differ(_blocks("a"), listed, _touched("a")).found == 0


def test_another_look_settles_what_was_open() -> None:
    """What is found is kept, and what is still open is the later look's."""
    difference = _differ(_blocks("ab"), {}, _touched("b"))

    difference.settle(_differ(_blocks("b"), {}, _touched("b")))
    still_open = set(difference.open)
    difference.settle(_differ(_blocks("b"), {}))

    assert still_open == {_key("b")}
    assert set(difference.only_in_events) == {_key("a"), _key("b")}
    assert difference.open == set()
