"""A view of what nodes hold, folded from their events."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtier.client import BlockIndex, BlockKey, Quality
from kvtier.v1.block_pb2 import Position
from kvtier.v1.event_service_pb2 import (
    BlockStored,
    SourceState,
    State,
    TierState,
    WatchEventsResponse,
)
from kvtier.v1.namespace_pb2 import Namespace
from kvtier.wire.namespaces import fingerprint

from .messages import (
    FINGERPRINT,
    OTHER,
    OTHER_FINGERPRINT,
    Script,
    cleared,
    hash_of,
    removed,
    stored,
)

DOWN, LIVE = SourceState.SOURCE_STATE_DOWN, SourceState.SOURCE_STATE_LIVE
SUSPECT = SourceState.SOURCE_STATE_SUSPECT


def _key(
    number: int, namespace: bytes = FINGERPRINT, group: int = 0, scope: bytes = b""
) -> BlockKey:
    return BlockKey(namespace, group, scope, hash_of(number))


def _keys(*numbers: int) -> set[BlockKey]:
    return {_key(number) for number in numbers}


def _chain(*numbers: int) -> list[bytes]:
    return [hash_of(number) for number in numbers]


def _apply(index: BlockIndex, *messages: WatchEventsResponse) -> None:
    for message in messages:
        index.apply(message)


def _state(node: str, state: SourceState.ValueType) -> WatchEventsResponse:
    return WatchEventsResponse(node_id=node, state=State(source=state))


@pytest.fixture
def index() -> BlockIndex:
    return BlockIndex()


@pytest.fixture
def script() -> Script:
    return Script("node")


def test_a_snapshot_becomes_the_view(index: BlockIndex, script: Script) -> None:
    """After synced the view is exact at the position, and names every tier and block."""
    _apply(index, *script.start(stored(1, 2), stored(3, tier="gpu0")))

    assert index.nodes() == ["node"]
    assert index.tiers("node") == ["cpu0", "gpu0"]
    assert index.blocks("node", "cpu0") == _keys(1, 2)
    assert index.blocks("node", "gpu0") == _keys(3)
    assert index.count("node", "cpu0") == 2
    assert index.position("node") == Position(epoch=7, sequence=0)
    assert index.quality("node") is Quality.EXACT


def test_batches_move_the_view_and_its_position(index: BlockIndex, script: Script) -> None:
    """Stores add, removals take away, and progress moves the position alone."""
    _apply(
        index,
        *script.start(stored(1, 2)),
        script.batch(removed(1), stored(3)),
        script.progress(skipped=2),
    )

    assert index.blocks("node", "cpu0") == _keys(2, 3)
    assert index.position("node") == Position(epoch=7, sequence=3)
    assert index.bad_events == 0


def test_within_a_batch_clears_and_removals_come_before_stores(
    index: BlockIndex, script: Script
) -> None:
    """A block that is removed and stored in one batch is there after it."""
    _apply(index, *script.start(stored(1)), script.batch(stored(1), removed(1)))
    assert index.blocks("node", "cpu0") == _keys(1)

    _apply(index, script.batch(stored(2), cleared()))

    assert index.blocks("node", "cpu0") == _keys(2)


def test_the_old_view_is_served_until_the_new_one_is_complete(
    index: BlockIndex, script: Script
) -> None:
    """A rebuild shows neither half of a snapshot nor a mixture; synced swaps it in whole."""
    _apply(index, *script.start(stored(1, 2)), script.batch(stored(3)))

    _apply(index, script.reset(), script.page(stored(2)), script.batch(stored(9), removed(7)))

    assert index.blocks("node", "cpu0") == _keys(1, 2, 3)
    assert index.prefix(FINGERPRINT, 0, b"", _chain(9)).nodes == {"node": 0}
    assert index.locate(_key(9)) == []
    assert index.quality("node") is Quality.STALE
    assert index.position("node") == Position(epoch=7, sequence=1)

    _apply(index, script.page(stored(4)), script.synced(3))

    assert index.blocks("node", "cpu0") == _keys(2, 4, 9)
    assert index.quality("node") is Quality.EXACT
    assert index.position("node") == Position(epoch=7, sequence=2)


def test_a_restarted_node_leaves_nothing_of_its_first_life(index: BlockIndex) -> None:
    """A new epoch brings a reset, and only what the new life tells is there after it."""
    _apply(index, *Script(epoch=7).start(stored(1, 2, 3)))
    second = Script(epoch=8)

    _apply(index, *second.start(), second.batch(stored(3, 4)))

    assert index.blocks("node", "cpu0") == _keys(3, 4)
    assert index.locate(_key(1)) == []
    assert index.position("node") == Position(epoch=8, sequence=1)


def test_a_second_reset_throws_the_unfinished_snapshot_away(
    index: BlockIndex, script: Script
) -> None:
    """What a snapshot brought that never ended is nowhere."""
    _apply(index, script.reset(), script.namespace(), script.page(stored(1, 2)))

    _apply(index, *script.start(stored(3)))

    assert index.blocks("node", "cpu0") == _keys(3)
    assert index.quality("node") is Quality.EXACT


def test_a_clear_is_scoped_to_its_tier(index: BlockIndex, script: Script) -> None:
    """Clearing one tier leaves the copies in the others, and stores after it survive."""
    _apply(index, *script.start(stored(1, 2, tier="gpu0"), stored(2, 3)))

    _apply(index, script.batch(cleared("gpu0")), script.batch(stored(4, tier="gpu0")))

    assert index.blocks("node", "gpu0") == _keys(4)
    assert index.blocks("node", "cpu0") == _keys(2, 3)
    assert index.locate(_key(2)) == [("node", "cpu0")]


def test_a_clear_of_a_namespace_leaves_the_others(index: BlockIndex, script: Script) -> None:
    """Only blocks of the named namespace go."""
    _apply(
        index,
        *script.start(),
        script.namespace(OTHER),
        script.batch(stored(1, 2), stored(1, namespace=OTHER_FINGERPRINT)),
        script.batch(cleared(namespace=FINGERPRINT)),
    )

    assert index.blocks("node", "cpu0") == {_key(1, OTHER_FINGERPRINT)}


def test_a_clear_of_one_node_leaves_the_other(index: BlockIndex) -> None:
    """Of two nodes with blocks in common, the cleared one shows exactly what it stored since."""
    one, two = Script("one"), Script("two")
    _apply(index, *one.start(stored(*range(100))), *two.start(stored(*range(80, 180))))

    _apply(index, one.batch(cleared()), one.batch(stored(*range(500, 510))))

    assert index.blocks("one", "cpu0") == _keys(*range(500, 510))
    assert index.blocks("two", "cpu0") == _keys(*range(80, 180))


def test_a_removal_from_one_tier_leaves_the_other(index: BlockIndex, script: Script) -> None:
    """A block that leaves GPU memory is still in host memory."""
    _apply(index, *script.start(stored(1, tier="gpu0"), stored(1)))

    _apply(index, script.batch(removed(1, tier="gpu0")))

    assert index.locate(_key(1)) == [("node", "cpu0")]


def test_an_unknown_member_does_not_stop_a_removal(index: BlockIndex, script: Script) -> None:
    """The other blocks of the event go all the same."""
    _apply(index, *script.start(stored(1, 2, 3)), script.batch(removed(1, 99, 2)))

    assert index.blocks("node", "cpu0") == _keys(3)
    assert index.bad_events == 0


def test_groups_scopes_and_namespaces_are_apart(index: BlockIndex, script: Script) -> None:
    """One hash in two groups, scopes or namespaces is as many blocks."""
    _apply(
        index,
        *script.start(),
        script.namespace(OTHER),
        script.batch(
            stored(1),
            stored(1, group=1),
            stored(1, scope=b"x"),
            stored(1, namespace=OTHER_FINGERPRINT),
        ),
        script.batch(removed(1)),
    )

    assert index.locate(_key(1)) == []
    assert index.locate(_key(1, group=1)) == [("node", "cpu0")]
    assert index.locate(_key(1, scope=b"x")) == [("node", "cpu0")]
    assert index.locate(_key(1, OTHER_FINGERPRINT)) == [("node", "cpu0")]


def test_a_hole_ends_the_prefix_and_nodes_are_not_stitched(index: BlockIndex) -> None:
    """What lies behind a hole does not count, though another node could fill it."""
    one, two = Script("one"), Script("two")
    _apply(index, *one.start(stored(1, 2, 3, 4)), *two.start(stored(2)))

    _apply(index, one.batch(removed(2)))

    lengths = index.prefix(FINGERPRINT, 0, b"", _chain(1, 2, 3, 4))
    assert lengths.tiers == {("one", "cpu0"): 1, ("two", "cpu0"): 0}
    assert lengths.nodes == {"one": 1, "two": 0}
    assert index.blocks("one", "cpu0") == _keys(1, 3, 4)


def test_the_tiers_of_a_node_are_taken_together(index: BlockIndex, script: Script) -> None:
    """A node's prefix goes on from one of its tiers to the next."""
    _apply(index, *script.start(stored(1, 3, tier="gpu0"), stored(2)))

    lengths = index.prefix(FINGERPRINT, 0, b"", _chain(1, 2, 3, 4))

    assert lengths.tiers == {("node", "gpu0"): 1, ("node", "cpu0"): 0}
    assert lengths.nodes == {"node": 3}


def test_orphans_are_kept(index: BlockIndex, script: Script) -> None:
    """A block whose parent was never seen is there; the prefix stops at the parent."""
    _apply(index, *script.start(), script.batch(stored(2)), script.batch(stored(3)))

    assert index.locate(_key(2)) == index.locate(_key(3)) == [("node", "cpu0")]
    assert index.prefix(FINGERPRINT, 0, b"", _chain(1, 2, 3)).nodes == {"node": 0}


def test_hashes_are_told_apart_by_every_byte(index: BlockIndex, script: Script) -> None:
    """Hashes that share their head, their tail or their sign bit stay distinct."""
    wide = Namespace()
    wide.CopyFrom(OTHER)
    wide.hash_width = 32
    space = fingerprint(wide)
    hashes = [b"\xff" * 8 + b"a" * 24, b"\xff" * 8 + b"b" * 24, b"c" * 24 + b"a" * 8]
    event = BlockStored(tier="cpu0", namespace=space, block_hashes=b"".join(hashes))

    _apply(index, *script.start(), script.namespace(wide), script.batch(event))

    assert {key.block_hash for key in index.blocks("node", "cpu0")} == set(hashes)


@pytest.mark.parametrize(
    "bad",
    [
        BlockStored(tier="cpu0", namespace=FINGERPRINT, block_hashes=b"1234567"),
        BlockStored(tier="cpu0", namespace=FINGERPRINT, block_hashes=b""),
        BlockStored(tier="cpu0", namespace=b"?" * 32, block_hashes=b"12345678"),
        BlockStored(tier="cpu9", namespace=FINGERPRINT, block_hashes=b"12345678"),
        BlockStored(tier="", namespace=FINGERPRINT, block_hashes=b"12345678"),
        removed(1, tier="cpu9"),
        removed(1, namespace=b"?" * 32),
        cleared(tier="cpu9"),
    ],
)
def test_an_event_that_makes_no_sense_is_counted_and_passed_over(
    index: BlockIndex, script: Script, bad: Any
) -> None:
    """The good events around it are applied, and the view no longer claims to be exact."""
    _apply(index, script.tier("cpu0"), *script.start(stored(1)))

    _apply(index, script.batch(bad, stored(2)), script.batch(stored(3)))

    assert index.bad_events == 1
    assert index.blocks("node", "cpu0") == _keys(1, 2, 3)
    assert index.quality("node") is Quality.STALE

    _apply(index, *script.start(stored(1, 2, 3)))

    assert index.quality("node") is Quality.EXACT


@pytest.mark.parametrize(("field", "value"), [("tokens_per_block", 0), ("hash_width", 0)])
def test_a_description_that_makes_no_sense_is_counted_and_passed_over(
    index: BlockIndex, script: Script, field: str, value: int
) -> None:
    """A block size or a hash width of 0 reaches no arithmetic, and good events go on."""
    bad = Namespace()
    bad.CopyFrom(OTHER)
    setattr(bad, field, value)

    _apply(index, *script.start(), script.namespace(bad), script.batch(stored(1)))

    assert index.bad_events == 1
    assert index.blocks("node", "cpu0") == _keys(1)


def test_a_duplicate_within_an_event_counts_once(index: BlockIndex, script: Script) -> None:
    """Counts stay right when a hash comes twice."""
    _apply(index, *script.start(), script.batch(stored(1, 1, 2)))
    assert index.count("node", "cpu0") == 2

    _apply(index, script.batch(removed(1, 1)))

    assert index.count("node", "cpu0") == 1


def test_a_view_that_differs_from_the_nodes_count_is_not_exact(
    index: BlockIndex, script: Script
) -> None:
    """The number in synced is checked, so that a loss on the way does not go unnoticed."""
    _apply(index, script.reset(), script.namespace(), script.page(stored(1)), script.synced(2))

    assert index.bad_events == 1
    assert index.quality("node") is Quality.STALE


def test_quality_follows_the_state_of_the_source(index: BlockIndex, script: Script) -> None:
    """Out of reach or suspect is STALE, and the view stays; resumed is EXACT again."""
    assert index.quality("node") is Quality.UNKNOWN
    _apply(index, script.reset(), script.namespace(), script.page(stored(1)))
    assert index.quality("node") is Quality.UNKNOWN
    assert index.position("node") is None
    _apply(index, script.synced(1))
    assert index.quality("node") is Quality.EXACT

    for state in (SUSPECT, DOWN):
        _apply(index, _state("node", state))
        assert index.quality("node") is Quality.STALE
        assert index.blocks("node", "cpu0") == _keys(1)

    _apply(index, script.synced(1), _state("node", LIVE))
    assert index.quality("node") is Quality.EXACT


def test_a_silent_tier_is_unknown(index: BlockIndex, script: Script) -> None:
    """What a tier without events holds cannot be known, whatever the node's state."""
    silent = TierState.TIER_STATE_SILENT

    _apply(index, *script.start(stored(1)), script.tier("cpu0"), script.tier("fs0", silent))

    assert index.tiers("node") == ["cpu0", "fs0"]
    assert index.quality("node", "fs0") is Quality.UNKNOWN
    assert index.quality("node", "cpu0") is Quality.EXACT
    assert index.quality("node") is Quality.EXACT


def test_a_message_without_a_node_is_ignored(index: BlockIndex) -> None:
    """The state of a source that is not known yet names nobody."""
    _apply(index, _state("", DOWN))

    assert index.nodes() == []


def test_nothing_of_a_forgotten_node_is_left(index: BlockIndex) -> None:
    """Its blocks, its position and its name go; the others stay."""
    one, two = Script("one"), Script("two")
    _apply(index, *one.start(stored(1)), one.reset(), one.page(stored(2)), *two.start(stored(1)))

    index.forget("one")

    assert index.nodes() == ["two"]
    assert index.blocks("one", "cpu0") == set()
    assert index.locate(_key(1)) == [("two", "cpu0")]
    assert index.quality("one") is Quality.UNKNOWN


_tier = st.sampled_from(["gpu0", "cpu0"])
_numbers = st.lists(st.integers(0, 20), min_size=1, max_size=6, unique=True)
_event = st.one_of(
    st.tuples(st.just("stored"), _tier, _numbers),
    st.tuples(st.just("removed"), _tier, _numbers),
    st.tuples(st.just("cleared"), _tier, st.just([0])),
)
_step = st.tuples(
    st.integers(0, 2),
    st.sampled_from(["batch", "batch", "batch", "snapshot"]),
    st.lists(_event, min_size=1, max_size=4),
)


def _happen(
    script: Script, kind: str, events: list[Any], model: dict[tuple[str, str], set[int]]
) -> list[WatchEventsResponse]:
    """Let something happen to the model of a node, and return what the node says of it."""
    node = script.node_id
    if kind == "snapshot":
        parts = {tier: set(numbers) for _, tier, numbers in events}
        model.update({(node, tier): parts.get(tier, set()) for tier in ("gpu0", "cpu0")})
        return script.start(*(stored(*numbers, tier=tier) for tier, numbers in parts.items()))
    events = sorted(events, key=lambda event: ["cleared", "removed", "stored"].index(event[0]))
    for what, tier, numbers in events:
        held = model.setdefault((node, tier), set())
        if what == "stored":
            held.update(numbers)
        else:
            held.difference_update(numbers if what == "removed" else set(held))
    return [script.batch(*(_part(*event) for event in events))]


def _part(what: str, tier: str, numbers: list[int]) -> Any:
    if what == "cleared":
        return cleared(tier)
    return (stored if what == "stored" else removed)(*numbers, tier=tier)


@given(st.lists(_step, max_size=30), st.lists(st.integers(0, 20), max_size=8))
def test_the_view_equals_plain_sets(steps: list[Any], chain: list[int]) -> None:
    """After any batches and snapshots of three nodes, every answer is that of plain sets."""
    index = BlockIndex()
    scripts = [Script(f"n{number}") for number in range(3)]
    model: dict[tuple[str, str], set[int]] = {}
    for script in scripts:
        _apply(index, *script.start())

    for number, kind, events in steps:
        _apply(index, *_happen(scripts[number], kind, events, model))
    lengths = index.prefix(FINGERPRINT, 0, b"", _chain(*chain))

    assert index.bad_events == 0
    for (node, tier), numbers in model.items():
        assert index.blocks(node, tier) == _keys(*numbers)
        assert index.count(node, tier) == len(numbers)
        assert lengths.tiers.get((node, tier), 0) == _walk(chain, numbers)
    for script in scripts:
        node = script.node_id
        union = set().union(*(numbers for (n, _), numbers in model.items() if n == node))
        assert lengths.nodes[node] == _walk(chain, union)
        held = index.held(node, FINGERPRINT, 0, b"", _chain(*chain))
        assert held == [number in union for number in chain]
    for number in range(21):
        assert set(index.locate(_key(number))) == {
            place for place, numbers in model.items() if number in numbers
        }


def _walk(chain: list[int], numbers: set[int]) -> int:
    return next((i for i, number in enumerate(chain) if number not in numbers), len(chain))
