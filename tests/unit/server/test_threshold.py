"""A tier that stores a block from its n-th offer on: which offers count."""

import pytest

from kvtier.v1.result_pb2 import CompleteResult, StoreOutcome
from kvtier.v1.tier_service_pb2 import PrepareStoreRequest, PrepareStoreResponse
from kvtier.wire.errors import KvtierError
from tests.contract.support import cpu_tier, run, words

from .conftest import MakeNode
from .support import LocalNode, at_once


@pytest.fixture
def node(make_node: MakeNode) -> LocalNode:
    """A node whose tier of four blocks stores what is offered twice."""
    return make_node(cpu_tier(4, store_threshold=2))


def offer(node: LocalNode, *blocks: object, start: int = 0) -> list[str]:
    """Offer blocks and store what is wanted; return the outcomes."""
    lease, answer = node.prepare(run(*blocks, start=start))
    node.fill(lease, blocks)
    node.complete(lease)
    return words(StoreOutcome, answer.outcomes)


def test_a_block_is_stored_at_its_second_offer(node: LocalNode) -> None:
    """The first offer gets no slot, and its completion stores nothing."""
    lease, first = node.prepare(run("a", "b"))
    completed = node.complete(lease)

    assert words(StoreOutcome, first.outcomes) == ["DEFERRED"] * 2
    assert words(CompleteResult, completed.results) == ["NOT_LEASED"] * 2
    assert (node.gauges(), node.batches()) == ({"free": 4}, [])
    assert node.tier.counters.deferred == 2
    assert offer(node, "a", "b", "c") == ["WRITE", "WRITE", "DEFERRED"]
    assert node.look_up("a", "b", "c") == ["HIT", "HIT", "MISS"]


def test_a_block_that_was_evicted_is_stored_at_its_next_offer(node: LocalNode) -> None:
    """From the second offer on a block is stored, also the third time."""
    for _ in range(2):
        offer(node, "a", "b", "c", "d")
    for _ in range(2):
        offer(node, "x")
    assert node.look_up("d") == ["MISS"]

    assert offer(node, "a", "b", "c", "d")[3] == "WRITE"


def test_offers_of_a_resident_block_do_not_count(make_node: MakeNode) -> None:
    """Whoever offers what is there takes nobody's place in the tracker."""
    node = make_node(cpu_tier(4, store_threshold=2, store_tracker=1))
    for _ in range(2):
        offer(node, "a")
    offer(node, "b")

    offer(node, "a")

    assert offer(node, "b") == ["WRITE"]


def test_the_tracker_forgets_what_was_offered_longest_ago(make_node: MakeNode) -> None:
    """Of one offer the last block is forgotten first."""
    node = make_node(cpu_tier(4, store_threshold=2, store_tracker=3))
    offer(node, "a", "b")
    offer(node, "x", "y")

    assert offer(node, "a", "b") == ["WRITE", "DEFERRED"]


def test_an_offer_keeps_a_block_in_the_tracker(make_node: MakeNode) -> None:
    """What is offered again is not the one that was offered longest ago."""
    node = make_node(cpu_tier(4, store_threshold=3, store_tracker=2))
    for block in "abac":
        offer(node, block)

    assert offer(node, "a") == ["WRITE"]


def test_a_block_twice_in_one_offer_is_offered_once(node: LocalNode) -> None:
    """Both places have the same outcome."""
    assert offer(node, "a", "a") == ["DEFERRED"] * 2
    assert offer(node, "a", "a") == ["WRITE"] * 2


def test_a_repeated_call_counts_once(node: LocalNode) -> None:
    """The same lease id gets the first answer, and no second count."""
    request: PrepareStoreRequest = node.offer(run("a"))
    answers = [
        PrepareStoreResponse.FromString(at_once(node.tiers.prepare_store(request))) for _ in "12"
    ]

    assert answers[0] == answers[1]
    assert node.tier.counters.deferred == 1
    assert offer(node, "a") == ["WRITE"]


def test_a_refused_offer_does_not_count(make_node: MakeNode) -> None:
    """An offer that finds no room changes no count, of the blocks that are to wait either."""
    node = make_node(cpu_tier(1, store_threshold=2))
    offer(node, "a", "b")
    with pytest.raises(KvtierError, match="can never take"):
        node.prepare(run("a", "b", "c"))

    lease, answer = node.prepare(run("c"))

    assert words(StoreOutcome, answer.outcomes) == ["DEFERRED"]
    assert not lease.slots


def test_a_tier_stores_every_block_at_once_unless_it_has_a_threshold(make_node: MakeNode) -> None:
    """The default counts nothing."""
    node = make_node()

    assert node.tier.threshold is None
    assert offer(node, "a") == ["WRITE"]
