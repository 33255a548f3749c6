"""An index says how far it can be trusted."""

from typing import Any

import pytest

from kvtier.client import BlockIndex, Quality
from kvtier.v1.event_service_pb2 import (
    BlockStored,
    TierState,
)
from kvtier.v1.namespace_pb2 import Namespace

from .indexing import (
    DOWN,
    LIVE,
    SUSPECT,
    apply,
    key,
    keys,
    source_said,
)
from .messages import (
    FINGERPRINT,
    OTHER,
    Script,
    cleared,
    removed,
    stored,
)


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
    apply(index, *script.start(stored(1)), script.tier("cpu0"))

    apply(index, script.batch(bad, stored(2)), script.batch(stored(3)))

    assert index.bad_events == 1
    assert index.blocks("node", "cpu0") == keys(1, 2, 3)
    assert index.quality("node") is Quality.STALE

    apply(index, *script.start(stored(1, 2, 3)))

    assert index.quality("node") is Quality.EXACT


@pytest.mark.parametrize(("field", "value"), [("tokens_per_block", 0), ("hash_width", 0)])
def test_a_description_that_makes_no_sense_is_counted_and_passed_over(
    index: BlockIndex, script: Script, field: str, value: int
) -> None:
    """A block size or a hash width of 0 reaches no arithmetic, and good events go on."""
    bad = Namespace()
    bad.CopyFrom(OTHER)
    setattr(bad, field, value)

    apply(index, *script.start(), script.namespace(bad), script.batch(stored(1)))

    assert index.bad_events == 1
    assert index.blocks("node", "cpu0") == keys(1)


def test_a_duplicate_within_an_event_counts_once(index: BlockIndex, script: Script) -> None:
    """Counts stay right when a hash comes twice."""
    apply(index, *script.start(), script.batch(stored(1, 1, 2)))
    assert index.count("node", "cpu0") == 2

    apply(index, script.batch(removed(1, 1)))

    assert index.count("node", "cpu0") == 1


def test_a_view_that_differs_from_the_nodes_count_is_not_exact(
    index: BlockIndex, script: Script
) -> None:
    """The number in synced is checked, so that a loss on the way does not go unnoticed."""
    apply(index, script.reset(), script.namespace(), script.page(stored(1)), script.synced(2))

    assert index.bad_events == 1
    assert index.quality("node") is Quality.STALE


def test_quality_follows_the_state_of_the_source(index: BlockIndex, script: Script) -> None:
    """Out of reach or suspect is STALE, and the view stays; resumed is EXACT again."""
    assert index.quality("node") is Quality.UNKNOWN
    apply(index, script.reset(), script.namespace(), script.page(stored(1)))
    assert index.quality("node") is Quality.UNKNOWN
    assert index.position("node") is None
    apply(index, script.synced(1))
    assert index.quality("node") is Quality.EXACT

    for state in (SUSPECT, DOWN):
        apply(index, source_said("node", state))
        assert index.quality("node") is Quality.STALE
        assert index.blocks("node", "cpu0") == keys(1)

    apply(index, script.synced(1), source_said("node", LIVE))
    assert index.quality("node") is Quality.EXACT


def test_a_silent_tier_is_unknown(index: BlockIndex, script: Script) -> None:
    """What a tier without events holds cannot be known, whatever the node's state."""
    silent = TierState.TIER_STATE_SILENT

    apply(index, *script.start(stored(1)), script.tier("cpu0"), script.tier("fs0", silent))

    assert index.tiers("node") == ["cpu0", "fs0"]
    assert index.quality("node", "fs0") is Quality.UNKNOWN
    assert index.quality("node", "cpu0") is Quality.EXACT
    assert index.quality("node") is Quality.EXACT


def test_a_recovering_tier_may_have_more_than_it_told(index: BlockIndex, script: Script) -> None:
    """What it told is there and counts; only its own answers are STALE, until it is ready."""
    recovering = TierState.TIER_STATE_RECOVERING
    apply(index, *script.start(stored(1, tier="fs0")), script.tier("cpu0"))

    apply(index, script.tier("fs0", recovering))

    assert index.recovering("node") == ["fs0"]
    assert index.quality("node", "fs0") is Quality.STALE
    assert index.quality("node", "cpu0") is Quality.EXACT
    assert index.quality("node") is Quality.EXACT
    assert index.locate(key(1)) == (("node", "fs0"),)

    apply(index, script.batch(stored(2, tier="fs0")), script.tier("fs0"))

    assert index.recovering("node") == []
    assert index.quality("node", "fs0") is Quality.EXACT
    assert index.blocks("node", "fs0") == keys(1, 2)


def test_a_tier_that_recovers_while_a_snapshot_comes_is_told_anew(
    index: BlockIndex, script: Script
) -> None:
    """A node that restarted names its tiers again: nothing is left of what was said before."""
    apply(index, *script.start(), script.tier("fs0", TierState.TIER_STATE_RECOVERING))

    apply(index, script.reset(), script.tier("fs0"), script.namespace(), script.synced(0))

    assert index.recovering("node") == []
    assert index.quality("node", "fs0") is Quality.EXACT


def test_a_read_only_tier_is_believed(index: BlockIndex, script: Script) -> None:
    """It can be read, and its events tell all that it holds."""
    apply(index, *script.start(stored(1)), script.tier("cpu0", TierState.TIER_STATE_READ_ONLY))

    assert index.quality("node", "cpu0") is Quality.EXACT
    assert index.recovering("node") == []


def test_nothing_is_known_to_recover_on_a_node_that_was_never_heard_of(index: BlockIndex) -> None:
    """Asking about a stranger is no error."""
    assert index.recovering("stranger") == []


def test_a_message_without_a_node_is_ignored(index: BlockIndex) -> None:
    """The state of a source that is not known yet names nobody."""
    apply(index, source_said("", DOWN))

    assert index.nodes() == []


def test_nothing_of_a_forgotten_node_is_left(index: BlockIndex) -> None:
    """Its blocks, its position and its name go; the others stay."""
    one, two = Script("one"), Script("two")
    apply(index, *one.start(stored(1)), one.reset(), one.page(stored(2)), *two.start(stored(1)))

    index.forget("one")

    assert index.nodes() == ["two"]
    assert index.blocks("one", "cpu0") == set()
    assert index.locate(key(1)) == (("two", "cpu0"),)
    assert index.quality("one") is Quality.UNKNOWN


def test_late_messages_do_not_bring_a_forgotten_node_back(index: BlockIndex) -> None:
    """What was still in a queue, a whole new snapshot even, changes nothing after removal."""
    script = Script("one")
    apply(index, *script.start(stored(1)))
    late = [script.batch(stored(2)), *script.start(stored(3)), source_said("one", LIVE)]

    index.forget("one")
    apply(index, *late)

    assert index.nodes() == []
    assert index.locate(key(2)) == index.locate(key(3)) == ()
    assert index.bad_events == 0


def test_a_node_that_is_welcome_again_begins_with_a_reset(index: BlockIndex) -> None:
    """The rest of its old stream is no beginning; its next snapshot is."""
    script = Script("one")
    apply(index, *script.start(stored(1)))
    index.forget("one")

    index.welcome("one")
    apply(index, script.batch(stored(2)), script.page(stored(4)))

    assert index.locate(key(2)) == index.locate(key(4)) == ()
    assert index.quality("one") is Quality.UNKNOWN
    apply(index, *script.start(stored(3)))
    assert index.blocks("one", "cpu0") == keys(3)
    assert index.quality("one") is Quality.EXACT


def test_the_room_of_what_was_dropped_comes_back_with_the_next_messages(
    index: BlockIndex,
) -> None:
    """Nothing is walked when a node goes; signs of life of another sweep its blocks out."""
    gone, stays = Script("gone"), Script("stays")
    apply(index, *gone.start(stored(*range(20_000))), *stays.start(stored(*range(100))))

    index.forget("gone")

    table = index._spaces.get((FINGERPRINT, 0, b""))
    assert table is not None
    assert table.entries == 20_000
    for _ in range(20):
        apply(index, stays.progress())
    assert table.entries == 100
    assert index.blocks("stays", "cpu0") == keys(*range(100))


def test_a_scope_that_nobody_uses_any_more_leaves_nothing(index: BlockIndex) -> None:
    """A hundred tenants come and go, by removals, by clears and with their node."""
    script = Script("node")
    apply(index, *script.start())

    for number in range(100):
        scope = bytes([number])
        apply(index, script.batch(stored(1, 2, scope=scope)))
        if number % 2:
            apply(index, script.batch(removed(1, 2, scope=scope)))
        else:
            apply(index, script.batch(cleared()), script.progress())

    assert index._spaces._tables == index._spaces._unswept == {}
    assert index._sources["node"].view.holders["cpu0"].spaces == set()


def test_what_did_not_pay_to_be_swept_goes_when_the_rest_goes(index: BlockIndex) -> None:
    """A few blocks of a dropped node wait for nothing: the space ends with its last block."""
    stays, gone = Script("stays"), Script("gone")
    apply(index, *stays.start(stored(*range(1000))), *gone.start(stored(*range(2000, 2200))))
    index.forget("gone")
    apply(index, stays.progress())

    apply(index, stays.batch(removed(*range(1000))), stays.progress())

    assert index._spaces._tables == index._spaces._unswept == {}
