"""Comparing a view with a node that is at work."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from itertools import cycle
from typing import Any

import pytest

from kvtier.cli.checking.comparison import Comparison
from kvtier.cli.checking.ledger import Ledger
from kvtier.cli.checking.verdict import Verdict
from kvtier.cli.checking.verify import compare
from kvtier.cli.follow import Follower, View
from kvtier.cli.trace import TOKENS_PER_BLOCK
from kvtier.client import InvalidArgumentError
from kvtier.client.arguments import bad_argument
from kvtier.v1.block_pb2 import BlockSet, Position
from kvtier.v1.event_service_pb2 import TierState
from kvtier.v1.result_pb2 import ChainLookup
from kvtier.v1.tier_pb2 import Block, Limits, Node, Tier
from kvtier.v1.tier_service_pb2 import (
    LookupBlocksResponse,
)
from kvtier.wire.hashes import split_hashes

from .node_log import FINGERPRINT, NAMESPACE, TIER, NodeLog, block_hash


def _chain(names: str) -> dict[str, tuple[bytes, int]]:
    parents = [b"", *map(block_hash, names)]
    return {
        name: (parent, place * TOKENS_PER_BLOCK)
        for place, (name, parent) in enumerate(zip(names, parents, strict=False))
    }


class FakeNode:
    """A node that holds blocks, and a view that hears of what happens there.

    Attributes:
        held: What it lists: each block's parent and position, as its store tells them.
        before_listing: Called before each listing.
        after_listing: Called after each.
        after_lookup: Called after each lookup.
    """

    def __init__(self, held: str = "", view: View | None = None) -> None:
        self.held = _chain(held)
        self.log = NodeLog()
        self.ledger = Ledger("n1")
        self.view = view or self.ledger
        self.listings = 0
        self.looked_up: list[str] = []
        self.before_listing: Callable[[], object] = lambda: None
        self.after_listing: Callable[[], object] = lambda: None
        self.after_lookup: Callable[[], object] = lambda: None
        self._hear(self.log.snapshot(held))

    def change(self, *, store: str = "", remove: str = "", tell: bool = True) -> None:
        """Store and remove blocks, and tell of it unless that gets lost."""
        for name in remove:
            del self.held[name]
        self.held |= _chain(store)
        if tell:
            self.view.apply(self.log.batch(store=store, remove=remove))

    def restart(self) -> None:
        """Lose the blocks, and begin another log."""
        self.held.clear()
        self.log = NodeLog(epoch=self.log.epoch + 1)
        self._hear(self.log.snapshot())

    async def compare(self) -> Comparison:
        client: Any = self
        return await compare(client, self.view)

    async def get_node(self) -> Node:
        head = Position(epoch=self.log.epoch, sequence=self.log.sequence)
        return Node(node_id="n1", head=head, limits=Limits(hashes=2))

    async def list_tiers(self) -> list[Tier]:
        silent = Tier(name="gpu0", state=TierState.TIER_STATE_SILENT)
        return [silent, Tier(name=TIER, state=TierState.TIER_STATE_READY)]

    async def list_blocks(self, **_: object) -> AsyncIterator[Block]:
        self.listings += 1
        self.before_listing()
        for name, (parent, position) in list(self.held.items()):
            yield Block(
                tier=TIER,
                namespace=FINGERPRINT,
                block_hash=block_hash(name),
                start_position=position,
                parent_block_hash=parent,
            )
        self.after_listing()

    async def lookup(
        self, namespace: bytes, chains: list[BlockSet], *, include_blocks: bool
    ) -> LookupBlocksResponse:
        assert (namespace, include_blocks) == (FINGERPRINT, True)
        names = [h[:1].decode() for h in split_hashes(chains[0].block_hashes, 32)]
        assert len(names) <= 2, "no more hashes at once than the node allows"
        self.looked_up += names
        masks = [2 * (name in self.held) for name in names]
        self.after_lookup()
        return LookupBlocksResponse(tiers=["gpu0", TIER], chains=[ChainLookup(tier_masks=masks)])

    def _hear(self, messages: Any) -> None:
        for message in messages:
            self.view.apply(message)


def _error(node: FakeNode, comparison: Comparison) -> tuple[int, str]:
    error = Verdict("there:1", comparison, node.ledger).error()
    assert error is not None
    return error.code, str(error)


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
    assert _error(node, comparison)[0] == 6


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
            node.held = _chain("abcd")
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
    code, text = _error(node, comparison)
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
    code, text = _error(node, comparison)
    assert code == 1
    assert "began anew in each of 20 rounds" in text


async def test_silent_tiers_are_named_and_not_counted() -> None:
    """Nothing can be said of them; the error names the others to check."""
    node = FakeNode("abc")

    comparison = await node.compare()

    records = Verdict("there:1", comparison, node.ledger).records(5)
    verdicts = {record["tier"]: (record["verdict"], record["events"]) for record in records}
    assert verdicts == {TIER: ("equal", 3), "gpu0": ("silent", None)}
    code, text = _error(node, comparison)
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
        assert _error(node, comparison)[0] == 6


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
