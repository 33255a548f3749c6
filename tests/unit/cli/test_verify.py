"""Comparing a view with a node that is at work."""

import asyncio
from functools import partial
from itertools import cycle

import pytest

from kvtier.cli.checking.verdict import Verdict
from kvtier.cli.follow import Follower
from kvtier.cli.trace import TOKENS_PER_BLOCK
from kvtier.client import InvalidArgumentError
from kvtier.client.arguments import bad_argument
from kvtier.v1.block_pb2 import Position

from .listing_node import FakeNode, chain, error_of
from .node_log import NAMESPACE, TIER, block_hash


async def test_a_quiet_node_is_equal_in_one_round() -> None:
    """Nothing happens: one listing is enough."""
    node = FakeNode("abc")

    comparison = await node.compare()

    assert (comparison.equal, comparison.rounds, comparison.listed) == (True, 1, 3)
    assert comparison.silent == ["gpu0"]
    assert comparison.position == Position(epoch=1)


@pytest.mark.parametrize("moment", ["before_listing", "after_listing"])
async def test_changes_during_a_listing_are_no_difference(moment: str) -> None:
    """What comes and goes around a listing is looked up again, a few hashes at a time."""
    node = FakeNode("abc")
    setattr(node, moment, lambda: node.change(store="defgh", remove="c"))

    comparison = await node.compare()

    assert comparison.equal
    if moment == "after_listing":
        assert comparison.rounds == 2
        assert sorted(node.looked_up) == list("cdefgh")


@pytest.mark.parametrize(
    ("lost", "only_in_listing", "only_in_events"),
    [({"store": "d"}, 1, 0), ({"remove": "b"}, 0, 1)],
    ids=["a store", "a removal"],
)
async def test_a_lost_event_is_found_while_others_change(
    lost: dict[str, str], only_in_listing: int, only_in_events: int
) -> None:
    """The block that no event told of differs, whatever happens to others."""
    node = FakeNode("abc")
    node.change(**lost, tell=False)
    node.after_listing = lambda: node.change(store="h")

    comparison = await node.compare()

    assert (comparison.missing, comparison.surplus) == (only_in_listing, only_in_events)
    assert comparison.differs
    assert error_of(node, comparison)[0] == 6


async def test_events_that_come_late_are_waited_for() -> None:
    """What is listed before its event has come is no difference."""
    node = FakeNode("abc")

    def store_and_tell_later() -> None:
        node.change(store="d", tell=False)
        told = node.log.batch(store="d")
        asyncio.get_running_loop().call_later(0.02, node.view.apply, told)

    node.before_listing = store_and_tell_later

    assert (await node.compare()).equal


async def test_a_view_that_fell_behind_begins_the_listing_anew() -> None:
    """What a follower skips by a snapshot was told by no event that it could record."""
    node = FakeNode("abc")

    def fall_behind() -> None:
        if node.listings == 1:
            node.held = chain("abcd")
            for message in node.log.snapshot("abcd"):
                node.view.apply(message)

    node.after_listing = fall_behind

    comparison = await node.compare()

    assert (comparison.equal, node.listings) == (True, 2)


async def test_a_follower_is_compared_by_the_same_rule() -> None:
    """An index knows no parents, but what it misses is found, and what moves is not."""
    sound, lossy = FakeNode("abc", Follower()), FakeNode("abc", Follower())
    sound.after_listing = lambda: sound.change(store="d", remove="a")
    lossy.change(remove="b", tell=False)

    same, other = await sound.compare(), await lossy.compare()

    assert (same.equal, same.rounds) == (True, 2)
    assert (other.missing, other.surplus, other.equal) == (0, 1, False)


async def test_an_event_that_gets_lost_during_the_listing_is_found_at_the_next_look() -> None:
    """A block that was touched, and then changed in silence, is not taken for explained."""
    node = FakeNode("abc")

    def flicker() -> None:
        node.change(store="d")
        node.change(remove="d", tell=False)

    node.after_listing = flicker

    comparison = await node.compare()

    assert (comparison.missing, comparison.surplus) == (0, 1)


async def test_a_block_that_never_rests_cannot_be_told() -> None:
    """After 20 rounds the answer is that none can be given, and not that something differs."""
    node = FakeNode("a")
    node.after_listing = lambda: node.change(store="b")
    turns = cycle([partial(node.change, remove="b"), partial(node.change, store="b")])

    def turn() -> None:
        next(turns)()

    node.after_lookup = turn

    comparison = await node.compare()

    assert (comparison.rounds, comparison.settled, comparison.differs) == (20, False, False)
    code, text = error_of(node, comparison)
    assert code == 1
    assert f"could not tell of tier {TIER}: 1 blocks came or went in each of 20 rounds" in text


async def test_a_restart_during_a_listing_begins_it_anew() -> None:
    """What was listed of the former life is not compared with the events of the next."""
    node = FakeNode("abc")

    def restart_once() -> None:
        if node.listings == 1:
            node.restart()

    node.after_listing = restart_once

    comparison = await node.compare()

    assert comparison.equal
    assert (node.listings, comparison.listed) == (2, 0)
    assert comparison.position == Position(epoch=2)


async def test_a_page_token_of_a_former_life_begins_the_listing_anew() -> None:
    """A restarted node refuses the next page; that is no wrong use."""
    node = FakeNode("abc")

    def refuse() -> None:
        if node.listings == 1:
            node.restart()
            raise bad_argument("page token of another life")

    node.after_listing = refuse

    assert (await node.compare()).equal


async def test_a_refusal_without_a_restart_is_the_callers() -> None:
    """A listing that the node refuses is an error, and not tried again."""
    node = FakeNode("abc")

    def refuse() -> None:
        raise bad_argument("no such group")

    node.after_listing = refuse

    with pytest.raises(InvalidArgumentError, match="no such group"):
        await node.compare()
    assert node.listings == 1


async def test_a_node_that_restarts_each_time_cannot_be_told() -> None:
    """A view that never lasts through a listing proves nothing."""
    node = FakeNode("abc")
    node.after_listing = node.restart

    comparison = await node.compare()

    assert (comparison.whole, comparison.equal) == (False, False)
    code, text = error_of(node, comparison)
    assert code == 1
    assert "began anew in each of 20 rounds" in text


async def test_silent_tiers_are_named_and_not_counted() -> None:
    """Nothing can be said of them; the error names the others to check."""
    node = FakeNode("abc")

    comparison = await node.compare()

    records = Verdict("there:1", comparison, node.ledger).records(5)
    verdicts = {record["tier"]: (record["verdict"], record["events"]) for record in records}
    assert verdicts == {TIER: ("equal", 3), "gpu0": ("silent", None)}
    code, text = error_of(node, comparison)
    assert code == 1
    assert text.endswith(f"no events are kept there; check only --tier {TIER}")


async def test_contradictions_and_miscounts_are_differences() -> None:
    """Events that make no sense are told even where the listing agrees in the end."""
    twice, miscounted = FakeNode("abc"), FakeNode("abc")
    twice.change(store="c")
    for message in miscounted.log.snapshot("abc", blocks=4):
        miscounted.ledger.apply(message)

    for node in (twice, miscounted):
        comparison = await node.compare()

        assert comparison.equal
        assert error_of(node, comparison)[0] == 6


async def test_examples_show_the_differing_blocks() -> None:
    """At most so many of each tier, with what each side says."""
    node = FakeNode("abc")
    node.change(store="d", remove="a", tell=False)
    node.held["c"] = block_hash("x"), TOKENS_PER_BLOCK
    verdict = Verdict("there:1", await node.compare(), node.ledger)

    (one,) = verdict.records(1)[0]["examples"]
    every = verdict.records(9)[0]["examples"]

    assert one == every[0]
    assert [(each["difference"], each["block_hash"][:2]) for each in every] == [
        ("only in listing", "64"),
        ("only in events", "61"),
        ("unlike", "63"),
    ]
    assert every[2]["namespace_name"] == NAMESPACE.name
    assert every[2]["by_listing"] == {
        "parent_block_hash": block_hash("x").hex(),
        "start_position": TOKENS_PER_BLOCK,
        "adapter_name": "",
    }
