"""What an index knows of tiers, and sources that are removed."""

import pytest

from kvtier.client import BlockIndex, Quality, TierInfo
from kvtier.v1.block_pb2 import Locality, Medium
from kvtier.v1.event_service_pb2 import SourceState, State, TierState, WatchEventsResponse

from .indexing import LIVE, apply, key, keys, source_said
from .messages import FINGERPRINT, Script, cleared, removed, stored

CPU, FS, GPU = Medium.MEDIUM_CPU, Medium.MEDIUM_FS, Medium.MEDIUM_GPU
LOCAL, REMOTE = Locality.LOCALITY_LOCAL, Locality.LOCALITY_REMOTE
REMOVED = SourceState.SOURCE_STATE_REMOVED
READY, SILENT = TierState.TIER_STATE_READY, TierState.TIER_STATE_SILENT


def test_tiers_are_known_by_what_the_node_says_of_them(index: BlockIndex, script: Script) -> None:
    """Medium and locality come with the tier's state, before anything is stored."""
    apply(index, script.reset(), script.tier("fs0", READY, FS, REMOTE), script.synced(0))

    assert index.tier_info("node", "fs0") == TierInfo(FS, REMOTE)


def test_what_nobody_told_is_unspecified(index: BlockIndex, script: Script) -> None:
    """A stranger, a tier that was never named, and one whose state has no medium are unknown."""
    apply(index, *script.start(), script.tier("cpu0"))

    assert index.tier_info("node", "cpu0") == TierInfo()
    assert index.tier_info("node", "fs0") == TierInfo()
    assert index.tier_info("stranger", "cpu0") == TierInfo()


@pytest.mark.parametrize(
    "event", [stored(1), removed(1), cleared()], ids=["stored", "removed", "cleared"]
)
def test_an_event_tells_the_medium_that_the_state_did_not(
    index: BlockIndex, script: Script, event: object
) -> None:
    """A node that says nothing of its tiers has events that name their media."""
    apply(index, *script.start(), script.tier("cpu0", locality=LOCAL))

    apply(index, script.batch(event))  # type: ignore[arg-type]

    assert index.tier_info("node", "cpu0") == TierInfo(CPU, LOCAL)


def test_the_word_of_the_node_goes_over_that_of_an_event(index: BlockIndex, script: Script) -> None:
    """What a node says of its tier counts, also when an event says otherwise."""
    apply(index, *script.start(), script.tier("cpu0", READY, GPU, LOCAL), script.batch(stored(1)))

    assert index.tier_info("node", "cpu0") == TierInfo(GPU, LOCAL)


def test_a_silent_tier_keeps_its_medium(index: BlockIndex, script: Script) -> None:
    """What it holds is forgotten; what it is made of is not."""
    apply(index, *script.start(stored(1)), script.tier("cpu0", READY, CPU, LOCAL))

    apply(index, script.tier("cpu0", SILENT, CPU, LOCAL))

    assert index.tier_info("node", "cpu0") == TierInfo(CPU, LOCAL)


def test_tiers_of_a_view_are_known_until_the_next_is_complete(
    index: BlockIndex, script: Script
) -> None:
    """A node that starts over with other tiers changes them all at once, at synced."""
    apply(index, *script.start(stored(1)), script.tier("cpu0", READY, CPU, LOCAL))

    apply(index, script.reset(), script.tier("cpu0", READY, FS, REMOTE))
    before = index.tier_info("node", "cpu0")
    apply(index, script.synced(0))

    assert before == TierInfo(CPU, LOCAL)
    assert index.tier_info("node", "cpu0") == TierInfo(FS, REMOTE)


def test_a_removed_node_is_forgotten_at_once(index: BlockIndex) -> None:
    """Its blocks, an unfinished snapshot, its position and its name go; the others stay."""
    one, two = Script("one"), Script("two")
    apply(index, *one.start(stored(1)), one.reset(), one.page(stored(2)), *two.start(stored(1)))

    apply(index, source_said("one", REMOVED))

    assert index.nodes() == ["two"]
    assert index.locate(key(1)) == (("two", "cpu0"),)
    assert index.quality("one") is Quality.UNKNOWN
    assert index.position("one") is None
    assert index.tier_info("one", "cpu0") == TierInfo()


def test_late_messages_of_a_removed_node_are_ignored(index: BlockIndex) -> None:
    """What was under way is no fault, and nothing of it comes back."""
    script = Script("one")
    apply(index, *script.start(stored(1)), source_said("one", REMOVED))

    late = [script.tier(), script.batch(stored(2)), script.page(stored(3)), script.progress()]
    apply(index, *late, script.synced(1), source_said("one", LIVE), source_said("one", REMOVED))

    assert index.nodes() == []
    assert index.locate(key(2)) == index.locate(key(3)) == ()
    assert index.bad_events == 0


def test_a_removed_node_that_comes_back_starts_with_a_reset(index: BlockIndex) -> None:
    """It takes no welcome: its next snapshot is the beginning, and only what is in it counts."""
    script = Script("one")
    apply(index, *script.start(stored(1)), source_said("one", REMOVED))

    apply(index, *Script("one", epoch=8).start(stored(2)))

    assert index.blocks("one", "cpu0") == keys(2)
    assert index.quality("one") is Quality.EXACT
    assert index.locate(key(1)) == ()


def test_a_forgotten_node_stays_away_when_it_was_removed_too(index: BlockIndex) -> None:
    """A reset brings back who was removed, but nobody who was forgotten for good."""
    script = Script("one")
    apply(index, *script.start(stored(1)), source_said("one", REMOVED))
    index.forget("one")

    apply(index, *script.start(stored(1)))

    assert index.nodes() == []


def test_removing_a_stranger_changes_nothing(index: BlockIndex) -> None:
    """A node that was never heard of is not known afterwards either."""
    apply(index, source_said("one", REMOVED))

    assert index.nodes() == []


def test_the_state_of_a_tier_removes_no_node(index: BlockIndex, script: Script) -> None:
    """Only what is said of the source itself removes it."""
    said = State(tier="cpu0", tier_state=READY, source=REMOVED)
    apply(index, *script.start(stored(1)))

    apply(index, WatchEventsResponse(node_id="node", state=said))

    assert index.blocks("node", "cpu0") == keys(1)


def test_the_room_of_a_removed_node_comes_back(index: BlockIndex) -> None:
    """Signs of life of another node sweep its blocks out."""
    gone, stays = Script("gone"), Script("stays")
    apply(index, *gone.start(stored(*range(20_000))), *stays.start(stored(*range(100))))

    apply(index, source_said("gone", REMOVED))
    for _ in range(20):
        apply(index, stays.progress())

    table = index._spaces.get((FINGERPRINT, 0, b""))
    assert table is not None
    assert table.entries == 100
