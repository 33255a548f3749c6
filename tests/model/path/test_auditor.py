"""The auditor lets a good stream pass, and nothing else."""

from collections.abc import Callable
from typing import Any

import pytest

from kvtier.v1.block_pb2 import RemovalReason
from kvtier.v1.event_service_pb2 import (
    BlockRemoved,
    BlockStored,
    EventBatch,
    EventBatches,
    Progress,
    Reset,
    ResetReason,
    SnapshotPage,
    SourceState,
    State,
    Synced,
    TierCleared,
    WatchEventsResponse,
)
from kvtier.v1.namespace_pb2 import Namespace
from kvtier.wire.namespaces import fingerprint
from tests.contract.support import hashes, namespace

from .auditor import Auditor
from .ledger import Ledger, Life
from .wanted import Wanted

NODE, EPOCH, NEXT_EPOCH, RING = "alpha", 7, 9, 2
SPACE = fingerprint(namespace())
Message = WatchEventsResponse


def stored(*blocks: int, tier: str = "cpu0") -> BlockStored:
    return BlockStored(
        tier=tier,
        namespace=SPACE,
        run_lengths=[1] * len(blocks),
        start_positions=[0] * len(blocks),
        block_hashes=hashes(*blocks),
    )


def removed(*blocks: int) -> BlockRemoved:
    reason = RemovalReason.REMOVAL_REASON_EVICTED
    return BlockRemoved(tier="cpu0", namespace=SPACE, reason=reason, block_hashes=hashes(*blocks))


BATCHES = (
    EventBatch(sequence=1, stored=[stored(1, 2)]),
    EventBatch(sequence=2, stored=[stored(3, tier="gpu0")]),
    EventBatch(sequence=3, removed=[removed(1)], stored=[stored(4)]),
    EventBatch(sequence=4, cleared=[TierCleared(tier="gpu0")]),
)


@pytest.fixture
def ledger() -> Ledger:
    """A node that lived once with four batches, and once more without any."""
    ledger = Ledger()
    first = Life(NODE, EPOCH, ring=RING)
    first.describe([namespace()])
    for batch in BATCHES:
        first.append(batch, batch)
    ledger.begin(first)
    ledger.begin(Life(NODE, NEXT_EPOCH, ring=RING))
    return ledger


@pytest.fixture
def auditor(ledger: Ledger) -> Auditor:
    return Auditor(ledger)


def message(after: int, through: int, epoch: int = EPOCH, **kind: Any) -> Message:
    return Message(node_id=NODE, epoch=epoch, after=after, through=through, **kind)


def reset(after: int, through: int, reason: str = "NO_POSITION", epoch: int = EPOCH) -> Message:
    number = ResetReason.Value(f"RESET_REASON_{reason}")
    return message(after, through, epoch, reset=Reset(reason=number))


def described(at: int) -> Message:
    return message(at, at, namespace=Namespace.FromString(namespace().SerializeToString()))


def page(after: int, through: int, *some: BlockStored) -> Message:
    return message(after, through, snapshot=SnapshotPage(stored=some))


def synced(after: int, through: int, blocks: int, epoch: int = EPOCH) -> Message:
    return message(after, through, epoch, synced=Synced(blocks=blocks))


def batches(after: int, through: int, *some: EventBatch) -> Message:
    return message(after, through, batches=EventBatches(batches=some))


def progress(after: int, through: int, head: int = 4) -> Message:
    return message(after, through, progress=Progress(head=head))


def state(at: int, what: str, epoch: int = EPOCH) -> Message:
    source = SourceState.Value(f"SOURCE_STATE_{what}")
    return message(at, at, epoch, state=State(source=source))


OPENING = (reset(1, 1), described(1), page(1, 1, stored(1, 2)), synced(1, 1, 2))
REST = (batches(1, 3, *BATCHES[1:3]), batches(3, 4, BATCHES[3]))


def take(auditor: Auditor, *messages: Message) -> None:
    for each in messages:
        auditor.take(each)


def test_a_good_stream_passes(auditor: Auditor) -> None:
    """Also with batches between the pages, a resume, another life, and a fall out of the log."""
    take(
        auditor,
        reset(0, 1),
        described(1),
        page(1, 1, stored(1)),
        batches(1, 2, BATCHES[1]),
        page(2, 2, stored(2)),
        synced(2, 2, 3),
        progress(2, 2),
        state(2, "DOWN"),
        synced(2, 2, 3),
        batches(2, 4, *BATCHES[2:]),
        state(4, "SUSPECT"),
        reset(0, 0, "EPOCH_CHANGED", NEXT_EPOCH),
        synced(0, 0, 0, NEXT_EPOCH),
    )

    assert auditor.seen["resume"] == 1
    assert auditor.seen["batches within a snapshot"] == 1


def test_a_true_reason_passes(ledger: Ledger) -> None:
    """One that lagged, one that came too late, and one that claims too much start over."""
    lagged, late, claims = Auditor(ledger), Auditor(ledger), Auditor(ledger)
    claims.at(NODE, EPOCH, 5)

    take(lagged, *OPENING, reset(1, 4, "LAGGED"))
    take(late, *OPENING, state(1, "DOWN"), reset(4, 4, "COMPACTED"))
    take(claims, reset(4, 4, "AHEAD_OF_HEAD"))


def test_a_filtered_stream_passes(ledger: Ledger) -> None:
    """What does not pass is left out and accounted for."""
    auditor = Auditor(ledger, Wanted(tier="cpu0"))

    take(auditor, *OPENING, progress(1, 2), batches(2, 3, BATCHES[2]), progress(3, 4))


def test_what_was_dropped_is_followed_by_a_reset(ledger: Ledger) -> None:
    """Where messages may be dropped, a state tells that some were."""
    auditor = Auditor(ledger, drops=True)

    take(auditor, *OPENING, state(3, "LIVE"), described(2), reset(4, 4))

    assert auditor.seen["jump"] == 1


BAD: dict[str, Callable[[], tuple[Message, ...]]] = {
    "a gap": lambda: (*OPENING, batches(2, 3, BATCHES[2])),
    "a repetition": lambda: (*OPENING, REST[0], REST[0]),
    "a batch left out": lambda: (*OPENING, batches(1, 3, BATCHES[2])),
    "a batch hidden": lambda: (*OPENING, progress(1, 2)),
    "batches out of order": lambda: (*OPENING, batches(1, 3, BATCHES[2], BATCHES[1])),
    "a batch made up": lambda: (
        *OPENING,
        batches(1, 2, EventBatch(sequence=2, stored=[stored(8)])),
    ),
    "a batch of the future": lambda: (*OPENING, *REST, batches(4, 5, EventBatch(sequence=5))),
    "a known block stored": lambda: (
        *OPENING,
        batches(1, 2, EventBatch(sequence=2, stored=[stored(1)])),
    ),
    "an unknown block removed": lambda: (
        *OPENING,
        batches(1, 2, EventBatch(sequence=2, removed=[removed(9)])),
    ),
    "a page of what is not there": lambda: (reset(4, 4), described(4), page(4, 4, stored(1))),
    "a page after synced": lambda: (*OPENING, page(1, 1)),
    "a page at the start": lambda: (page(1, 1, stored(1)),),
    "a block missing at synced": lambda: (
        reset(1, 1),
        described(1),
        page(1, 1, stored(1)),
        synced(1, 1, 1),
    ),
    "a wrong number at synced": lambda: (*OPENING[:-1], synced(1, 1, 3)),
    "synced twice": lambda: (*OPENING, synced(1, 1, 2)),
    "synced elsewhere": lambda: (*OPENING, state(1, "DOWN"), synced(1, 2, 2)),
    "batches before synced": lambda: (*OPENING, state(1, "DOWN"), REST[0]),
    "a resume amid a snapshot": lambda: (*OPENING[:3], state(1, "DOWN"), synced(1, 1, 2)),
    "a life that never was": lambda: (*OPENING, reset(0, 0, "EPOCH_CHANGED", 8)),
    "a life that ended": lambda: (
        reset(0, 0, epoch=NEXT_EPOCH),
        synced(0, 0, 0, NEXT_EPOCH),
        state(0, "DOWN", NEXT_EPOCH),
        reset(4, 4, "EPOCH_CHANGED"),
    ),
    "another life unsaid": lambda: (*OPENING, synced(1, 1, 2, NEXT_EPOCH)),
    "a state elsewhere": lambda: (*OPENING, state(2, "DOWN")),
    "a reset elsewhere": lambda: (*OPENING, reset(2, 4, "LAGGED")),
    "no position, with one": lambda: (*OPENING, state(1, "DOWN"), reset(1, 1)),
    "lagged within the log": lambda: (*OPENING, reset(1, 3, "LAGGED")),
    "compacted within the log": lambda: (*OPENING, state(1, "DOWN"), reset(3, 3, "COMPACTED")),
    "ahead of what is ahead": lambda: (*OPENING, state(1, "DOWN"), reset(4, 4, "AHEAD_OF_HEAD")),
    "a head of the future": lambda: (*OPENING, *REST, progress(4, 4, head=5)),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_stream_fails(auditor: Auditor, what: str) -> None:
    """Its last message fails, and none before."""
    *good, bad = BAD[what]()
    take(auditor, *good)

    with pytest.raises(AssertionError):
        auditor.take(bad)


def test_a_jump_is_followed_by_nothing_else(ledger: Ledger) -> None:
    """What was dropped must not be passed over."""
    auditor = Auditor(ledger, drops=True)
    take(auditor, *OPENING, state(3, "LIVE"))

    with pytest.raises(AssertionError):
        auditor.take(REST[1])
