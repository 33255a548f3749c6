"""Which node is the best place for a chain."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtier.client import (
    BlockIndex,
    Chain,
    ChainHeld,
    InvalidArgumentError,
    Placement,
    Quality,
    rank_nodes,
)
from kvtier.v1.block_pb2 import Medium, Position
from kvtier.v1.event_service_pb2 import SourceState, TierState

from .indexing import DOWN, SUSPECT, apply, chain_of, source_said, walk
from .messages import FINGERPRINT, OTHER_FINGERPRINT, Script, stored
from .patience import patiently

GPU, CPU, FS = Medium.MEDIUM_GPU, Medium.MEDIUM_CPU, Medium.MEDIUM_FS
UNKNOWN = Medium.MEDIUM_UNSPECIFIED
OBJ = Medium.MEDIUM_OBJ
WEIGHTS = {GPU: 1.0, CPU: 0.75, FS: 0.25}
MEDIA = {"gpu0": GPU, "cpu0": CPU, "fs0": FS, "obj0": OBJ, "odd0": UNKNOWN}
CHAIN = Chain(0, b"", chain_of(1, 2, 3, 4))

Held = Mapping[str, Any]


def hold(index: BlockIndex, node: str, held: Held, script: Script | None = None) -> Script:
    """Let a node hold numbered blocks, by tier."""
    script = script or Script(node)
    pages = [stored(*blocks, tier=t, medium=MEDIA[t]) for t, blocks in held.items() if blocks]
    reset, *rest = script.start(*pages)
    tiers = [script.tier(tier, medium=MEDIA[tier]) for tier in held]
    apply(index, reset, *tiers, *rest)
    return script


def ranked(index: BlockIndex, **options: Any) -> list[Placement]:
    return rank_nodes(index, FINGERPRINT, [CHAIN], WEIGHTS, **options)


def order(found: list[Placement]) -> list[tuple[str, float]]:
    return [(each.node, each.score) for each in found]


def test_the_node_with_the_most_valuable_prefix_comes_first(index: BlockIndex) -> None:
    """A long prefix on disk may be worth less than a short one in a GPU's memory."""
    hold(index, "disk", {"fs0": [1, 2, 3, 4]})
    hold(index, "fast", {"gpu0": [1, 2]})
    hold(index, "host", {"cpu0": [1, 2, 3]})

    assert order(ranked(index)) == [("host", 2.25), ("fast", 2.0), ("disk", 1.0)]


def test_a_block_counts_once_by_its_best_tier(index: BlockIndex) -> None:
    """What lies in several tiers of a node is worth what the best of them is worth."""
    hold(index, "node", {"fs0": [1, 2, 3], "cpu0": [1, 2], "gpu0": [2]})

    (found,) = ranked(index)

    assert found.chains == (
        ChainHeld(3, {"fs0": 3, "cpu0": 2, "gpu0": 0}, {GPU: 1, CPU: 1, FS: 1}),
    )
    assert found.score == 2.0


def test_the_union_ends_at_its_first_hole(index: BlockIndex) -> None:
    """Tiers of one node are taken together; what lies behind a hole is worth nothing."""
    hold(index, "node", {"cpu0": [1, 4], "gpu0": [2]})

    (found,) = ranked(index)

    assert found.reach == 2
    assert found.score == 1.75


def test_equals_are_sorted_by_reach_then_by_id(index: BlockIndex) -> None:
    """The order is the same whoever asks, and however the nodes came."""
    hold(index, "c", {"odd0": [1, 2, 3]})
    for node in ("b", "d", "a"):
        hold(index, node, {"cpu0": [1]})
    hold(index, "e", {})

    assert [each.node for each in ranked(index)] == ["a", "b", "d", "c", "e"]


@pytest.mark.parametrize("tier", ["odd0", "obj0"], ids=["unknown medium", "no weight"])
def test_a_tier_without_a_weight_earns_nothing(index: BlockIndex, tier: str) -> None:
    """Its blocks are there, so that they are no hole, and they are worth nothing."""
    hold(index, "node", {tier: [1, 2, 3], "cpu0": [2]})

    (found,) = ranked(index)

    assert found.chains[0].tiers[tier] == found.reach == 3
    assert found.score == 0.75


def test_a_silent_tier_earns_nothing(index: BlockIndex) -> None:
    """What it held when it fell silent counts no more, nor does what is told of it afterwards."""
    silent = TierState.TIER_STATE_SILENT
    script = hold(index, "node", {"cpu0": [1, 2, 3, 4]})

    apply(index, script.tier("cpu0", silent, CPU))
    fallen = ranked(index)
    apply(index, script.batch(stored(1)))

    assert [(each.score, each.reach) for each in fallen] == [(0.0, 0)]
    assert order(ranked(index)) == [("node", 0.0)]


def test_what_is_known_of_a_recovering_tier_counts(index: BlockIndex) -> None:
    """It may have more, and has what it told."""
    script = hold(index, "node", {"fs0": [1, 2]})

    apply(index, script.tier("fs0", TierState.TIER_STATE_RECOVERING, FS))

    assert order(ranked(index)) == [("node", 0.5)]


@pytest.mark.parametrize("state", [DOWN, SUSPECT])
def test_who_is_out_of_reach_comes_last_and_earns_nothing(
    index: BlockIndex, state: SourceState.ValueType
) -> None:
    """It is told with its quality, behind nodes that hold nothing, or left out by choice."""
    hold(index, "lost", {"gpu0": [1, 2, 3, 4]})
    hold(index, "new", {"gpu0": []})

    apply(index, source_said("lost", state))
    found = ranked(index)

    assert [(each.node, each.score, each.quality) for each in found] == [
        ("new", 0.0, Quality.EXACT),
        ("lost", 0.0, Quality.STALE),
    ]
    assert [each.node for each in ranked(index, exact_only=True)] == ["new"]


def test_a_node_that_starts_over_earns_nothing_until_it_is_in_sync(index: BlockIndex) -> None:
    """The old view is told, as STALE, with the position that it was true at."""
    script = hold(index, "node", {"cpu0": [1, 2]})

    apply(index, script.reset(), script.page(stored(1, 2, 3)))
    (found,) = ranked(index)

    assert (found.score, found.quality, found.reach) == (0.0, Quality.STALE, 2)
    assert found.position == Position(epoch=7, sequence=0)


def test_only_the_nodes_asked_about_are_told(index: BlockIndex) -> None:
    """Each once; one that was never heard of is UNKNOWN and holds nothing."""
    for node in ("a", "b"):
        hold(index, node, {"cpu0": [1]})

    found = ranked(index, nodes=["stranger", "b", "b"])

    assert [(each.node, each.quality) for each in found] == [
        ("b", Quality.EXACT),
        ("stranger", Quality.UNKNOWN),
    ]
    assert found[1] == ("stranger", 0.0, (ChainHeld(0, {}, {}),), Quality.UNKNOWN, None)


def test_groups_are_told_one_by_one_and_add_up(index: BlockIndex) -> None:
    """A node that is short in one group is not cut short in the other."""
    script = hold(index, "node", {"cpu0": [1, 2, 3]})
    apply(index, script.batch(stored(1, group=1)))

    (found,) = rank_nodes(index, FINGERPRINT, [CHAIN, CHAIN._replace(group=1)], WEIGHTS)

    assert [each.reach for each in found.chains] == [3, 1]
    assert (found.reach, found.score) == (4, 3.0)


def test_chains_that_nobody_has_are_worth_nothing(index: BlockIndex) -> None:
    """Another namespace or scope is another chain."""
    hold(index, "node", {"cpu0": [1]})

    (other,) = rank_nodes(index, OTHER_FINGERPRINT, [CHAIN], WEIGHTS)
    (scoped,) = rank_nodes(index, FINGERPRINT, [CHAIN._replace(scope=b"a")], WEIGHTS)

    held = (ChainHeld(0, {"cpu0": 0}, {GPU: 0, CPU: 0, FS: 0}),)
    assert (other.score, other.chains) == (scoped.score, scoped.chains) == (0.0, held)


@pytest.mark.parametrize("weight", [-1, float("nan"), float("inf"), "much", None])
def test_a_weight_that_is_no_number_is_refused(index: BlockIndex, weight: Any) -> None:
    """The error names the medium and the value."""
    with pytest.raises(InvalidArgumentError, match=r"weight of MEDIUM_CPU must be .*; got "):
        rank_nodes(index, FINGERPRINT, [CHAIN], {CPU: weight})


def test_an_unknown_medium_has_no_weight(index: BlockIndex) -> None:
    """A weight for what is not known would credit a tier that nobody can place."""
    with pytest.raises(InvalidArgumentError, match="MEDIUM_UNSPECIFIED"):
        rank_nodes(index, FINGERPRINT, [CHAIN], {UNKNOWN: 1.0})


_blocks = st.lists(st.integers(0, 9), unique=True)
_held = st.fixed_dictionaries(dict.fromkeys(MEDIA, _blocks))


@patiently
@given(
    st.lists(_held, min_size=1, max_size=4),
    st.lists(st.integers(0, 9), max_size=8),
    st.dictionaries(st.sampled_from([GPU, CPU, FS, OBJ]), st.sampled_from([0.0, 0.25, 1.0, 1.5])),
)
def test_scores_equal_those_of_plain_sets(
    nodes: list[dict[str, list[int]]], chain: list[int], weights: dict[Any, float]
) -> None:
    """Whatever nodes hold, in whatever tiers, each is worth what counting block by block gives."""
    index = BlockIndex()
    for number, held in enumerate(nodes):
        hold(index, f"n{number}", held)

    asked = Chain(0, b"", chain_of(*chain))
    found = {each.node: each for each in rank_nodes(index, FINGERPRINT, [asked], weights)}

    for number, held in enumerate(nodes):
        placement = found[f"n{number}"]
        reach = walk(chain, set().union(*held.values()))
        worth = [
            max(weights.get(MEDIA[tier], 0.0) for tier, blocks in held.items() if block in blocks)
            for block in chain[:reach]
        ]
        assert placement.reach == reach
        assert placement.score == sum(worth)
        lengths = {tier: walk(chain, set(blocks)) for tier, blocks in held.items()}
        assert {t: n for t, n in placement.chains[0].tiers.items() if n} == {
            t: n for t, n in lengths.items() if n
        }
