"""Merging what the primary and the mirrors know of a chain."""

from kvtier.client.proxy.lookup import ProxyLookup, SourceAnswer, answer_of, merge_lookup
from kvtier.v1.result_pb2 import ChainLookup, LookupResult

HIT = LookupResult.LOOKUP_RESULT_HIT
PENDING = LookupResult.LOOKUP_RESULT_HIT_PENDING
MISS = LookupResult.LOOKUP_RESULT_MISS
RETRY = LookupResult.LOOKUP_RESULT_RETRY


def _primary(*results: LookupResult.ValueType) -> SourceAnswer:
    length = next((i for i, each in enumerate(results) if each != HIT), len(results))
    return answer_of(ChainLookup(results=results, union_prefix_length=length))


def _mirror(held: str) -> SourceAnswer:
    length = len(held) - len(held.lstrip("x"))
    return SourceAnswer(in_sync=True, held=[each == "x" for each in held], prefix_length=length)


AWAY = SourceAnswer(in_sync=True)
UNSYNCED = SourceAnswer(in_sync=False)


def test_the_first_source_that_has_a_block_wins() -> None:
    """The primary comes first, then the secondaries in their order."""
    found = merge_lookup(4, [_primary(HIT, MISS, MISS, MISS), _mirror("xx.."), _mirror("xxx.")])

    assert found.results == (HIT, HIT, HIT, MISS)
    assert found.sources == (0, 1, 2, None)


def test_a_block_on_its_way_to_the_primary_is_pending_wherever_else_it_is() -> None:
    """Nobody is sent to a secondary for what the primary is about to have."""
    found = merge_lookup(1, [_primary(PENDING), _mirror("x")])

    assert found.results == (PENDING,)
    assert found.sources == (None,)


def test_prefixes_are_not_stitched_together_over_nodes() -> None:
    """A hole on a node ends its prefix, though another node could fill it."""
    found = merge_lookup(4, [_primary(HIT, MISS, HIT, HIT), _mirror(".x..")])

    assert found.results == (HIT, HIT, HIT, HIT)
    assert found.prefix_lengths == (1, 0)
    assert found.longest == (0, 1)


def test_retry_only_where_no_hit_is_known_and_a_mirror_is_not_in_sync() -> None:
    """A mirror that is being filled makes a miss uncertain, and nothing else."""
    found = merge_lookup(4, [_primary(HIT, PENDING, MISS, MISS), UNSYNCED, _mirror("..x.")])

    assert found.results == (HIT, PENDING, HIT, RETRY)
    assert found.sources == (0, None, 2, None)
    assert found.prefix_lengths == (1, None, 0)


def test_a_miss_is_certain_when_every_mirror_is_in_sync() -> None:
    """No mirror in doubt, no retry."""
    assert merge_lookup(1, [_primary(MISS), _mirror(".")]).results == (MISS,)
    assert merge_lookup(1, [_primary(MISS)]).results == (MISS,)


def test_a_node_that_is_away_has_nothing_and_delays_nothing() -> None:
    """A dead secondary neither serves a hit nor makes anybody ask again."""
    found = merge_lookup(1, [_primary(MISS), AWAY])

    assert found.results == (MISS,)
    assert found.prefix_lengths == (0, 0)


def test_a_primary_that_says_retry_is_believed_unless_another_has_the_block() -> None:
    """A tier of the primary that is not ready yet is asked again."""
    found = merge_lookup(2, [_primary(RETRY, RETRY), _mirror("x.")])

    assert found.results == (HIT, RETRY)


def test_the_longest_prefix_of_equals_is_the_earlier_source() -> None:
    """A secondary has to hold more than the primary to be worth the way."""
    lengths = ProxyLookup((), (), (2, None, 5, 5), (), ())

    assert lengths.longest == (2, 5)


def test_a_secondary_that_may_have_more_makes_a_miss_a_retry() -> None:
    """What it has told is a hit and counts in its prefix; the rest may turn up."""
    partial = SourceAnswer(in_sync=True, held=[True, False], prefix_length=1, partial=True)

    found = merge_lookup(2, [_primary(MISS, MISS), partial])

    assert found.results == (HIT, RETRY)
    assert found.sources == (1, None)
    assert found.prefix_lengths == (0, 1)


def test_a_primary_that_may_have_more_is_asked_again_unless_a_secondary_has_the_block() -> None:
    """The primary's own RETRY stands where no source has the block."""
    found = merge_lookup(2, [_primary(RETRY, RETRY), _mirror("x.")])

    assert found.results == (HIT, RETRY)
    assert found.sources == (1, None)
