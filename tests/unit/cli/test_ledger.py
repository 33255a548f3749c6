"""What events say block by block, and whether they make sense."""

import pytest

from kvtier.cli.checking.difference import Facts
from kvtier.cli.checking.ledger import Ledger
from kvtier.cli.exit import CommandError
from kvtier.cli.trace import TOKENS_PER_BLOCK
from kvtier.client import BlockKey
from kvtier.v1.event_service_pb2 import (
    BlockStored,
    SnapshotPage,
    TierCleared,
    WatchEventsResponse,
)

from .node_log import FINGERPRINT, TIER, NodeLog, block_hash, stored


def _key(name: str) -> BlockKey:
    return BlockKey(FINGERPRINT, 0, b"", block_hash(name))


def _ledger(*messages: WatchEventsResponse) -> Ledger:
    ledger = Ledger("n1")
    for message in messages:
        ledger.apply(message)
    return ledger


def _held(ledger: Ledger) -> str:
    return "".join(sorted(key.block_hash[:1].decode() for key in ledger.blocks("n1", TIER)))


def test_snapshots_and_batches_make_the_view() -> None:
    """Removals go, stores come, and what makes sense is no contradiction."""
    log = NodeLog()

    ledger = _ledger(*log.snapshot("ab"), log.batch(store="cd", remove="a"), log.batch(remove="c"))

    assert _held(ledger) == "bd"
    assert (ledger.contradictions, ledger.miscounts) == ([], 0)
    assert ledger.arrival.position("n1") is not None


def test_clears_are_obeyed_by_namespace() -> None:
    """A clear of another namespace leaves the blocks; one of this, or of all, does not."""
    for namespace, left in ((b"o" * 32, "ab"), (FINGERPRINT, ""), (b"", "")):
        log = NodeLog()
        clear = TierCleared(tier=TIER, namespace=namespace)

        ledger = _ledger(*log.snapshot("ab"), log.batch(clear=clear))

        assert _held(ledger) == left


def test_each_block_has_its_place_in_its_run() -> None:
    """Columns tell of several runs; within a run each block is the parent of the next."""
    log = NodeLog()
    columns = {
        "run_lengths": [2, 1],
        "start_positions": [0, 4 * TOKENS_PER_BLOCK],
        "parent_block_hashes": block_hash("x"),
        "adapter_name": "tuned",
    }
    page = SnapshotPage(stored=[stored("abc", **columns)])

    ledger = _ledger(*log.snapshot()[:2], log.message(snapshot=page))

    assert ledger.blocks("n1", TIER) == {
        _key("a"): Facts(b"", 0, "tuned"),
        _key("b"): Facts(block_hash("a"), TOKENS_PER_BLOCK, "tuned"),
        _key("c"): Facts(block_hash("x"), 4 * TOKENS_PER_BLOCK, "tuned"),
    }


@pytest.mark.parametrize(
    "event",
    [
        stored("ab", start_positions=[]),
        stored("ab", run_lengths=[1]),
        stored("ab", run_lengths=[1, 2], start_positions=[0, 0]),
        stored("ab", start_positions=[16]),
        stored("ab", parent_block_hashes=block_hash("x")),
    ],
    ids=["no start", "short runs", "long runs", "no parent", "a parent at 0"],
)
def test_columns_that_do_not_fit_are_one_error(event: BlockStored) -> None:
    """They cannot be read; the node is named."""
    log = NodeLog()

    with pytest.raises(CommandError, match="n1: its event stream cannot be read"):
        _ledger(*log.snapshot()[:2], log.message(snapshot=SnapshotPage(stored=[event])))


def test_events_that_cannot_follow_are_told() -> None:
    """A block that is there is stored, one that is not there is removed: something was lost."""
    log = NodeLog()

    ledger = _ledger(*log.snapshot("ab"), log.batch(store="a"), log.batch(remove="c"))

    assert ledger.contradictions == [
        (TIER, _key("a"), "stored", 1),
        (TIER, _key("c"), "removed", 2),
    ]


def test_between_the_pages_of_a_snapshot_everything_may_follow() -> None:
    """A page may have brought what a batch stores, or not yet what it removes."""
    log = NodeLog()
    reset, namespace, page, synced = log.snapshot("ab")
    batch = log.batch(store="a", remove="c")
    synced.after = synced.through = 1

    ledger = _ledger(reset, namespace, page, batch, synced)

    assert ledger.contradictions == []
    assert ledger.miscounts == 0


def test_a_view_of_another_size_than_told_is_a_miscount() -> None:
    """The number of blocks that synced tells is compared, at every start."""
    log = NodeLog()

    ledger = _ledger(*log.snapshot("ab", blocks=3), *log.snapshot("ab"))

    assert ledger.miscounts == 1


def test_a_new_start_forgets_everything() -> None:
    """What was held before a reset is not held after it, and takes a position only at synced."""
    log = NodeLog()
    ledger = _ledger(*log.snapshot("ab"))
    reset, *rest = NodeLog(epoch=2).snapshot("c")

    ledger.apply(reset)
    between = ledger.arrival.position("n1")
    for message in rest:
        ledger.apply(message)

    assert between is None
    assert _held(ledger) == "c"


def test_other_nodes_are_passed_over() -> None:
    """A ledger is of one node, also in a merged stream."""
    other = NodeLog("n2")

    ledger = _ledger(*NodeLog().snapshot("a"), *other.snapshot("b"))

    assert _held(ledger) == "a"
