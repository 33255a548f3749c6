"""A filter keeps whole events, and nothing that it should not."""

import pytest

from kvtier.server.events.filter import EventFilter
from kvtier.server.events.log import Entry, EventLog
from kvtier.server.events.parts import CLEARED, REMOVED, STORED, Part
from kvtier.v1.event_service_pb2 import EventBatch, EventBatches

from .fakes import CPU, GPU, space_of

_PARTS = [
    Part(CLEARED, 0, GPU, b"", b"\x0a\x01a", b"\x0a\x01a", 1),
    Part(CLEARED, 1, CPU, space_of(2), b"\x0a\x01b", b"\x0a\x01b", 1),
    Part(REMOVED, 0, GPU, space_of(1), b"\x0a\x01c", b"\x0a\x01c", 1),
    Part(STORED, 1, CPU, space_of(1), b"\x0a\x01d", b"\x0a\x01d\x5a\x01\x07", 1),
    Part(STORED, 1, CPU, space_of(2), b"\x0a\x01e", b"\x0a\x01e", 1),
]


def _entry(parts: list[Part] = _PARTS) -> Entry:
    log = EventLog(epoch=1, max_batches=500, max_bytes=1 << 20)
    for _ in range(299):
        log.append(_PARTS[:1])
    log.append(parts)
    return log.read(299, 300)[0]


def _batch(chunk: bytes) -> EventBatch:
    (batch,) = EventBatches.FromString(chunk).batches
    assert batch.sequence == 300
    return batch


def _names(chunk: bytes) -> str:
    batch = _batch(chunk)
    return "".join(
        [c.tier for c in batch.cleared]
        + [r.tier for r in batch.removed]
        + [s.tier for s in batch.stored]
    )


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (EventFilter(), "abcde"),
        (EventFilter(tiers=frozenset({0})), "ac"),
        (EventFilter(media=frozenset({CPU})), "bde"),
        (EventFilter(namespaces=frozenset({space_of(1)})), "acd"),
        (EventFilter(namespaces=frozenset({space_of(2)})), "abe"),
        (EventFilter(namespaces=frozenset({space_of(9)})), "a"),
        (EventFilter(tiers=frozenset({1}), namespaces=frozenset({space_of(1)})), "d"),
        (EventFilter(tiers=frozenset({0, 1}), media=frozenset({GPU, CPU})), "abcde"),
    ],
)
@pytest.mark.parametrize("full", [False, True])
def test_what_passes_keeps_its_kind_and_order(wanted: EventFilter, names: str, full: bool) -> None:
    """Only wanted parts are left, in order; a clear of all namespaces passes each of them."""
    chosen = EventFilter(wanted.tiers, wanted.media, wanted.namespaces, full)

    chunk = chosen.select(_entry())

    assert _names(chunk) == names


def test_nothing_is_left_of_a_batch_that_does_not_pass() -> None:
    """A batch without a passing part gives no bytes, not an empty batch."""
    wanted = EventFilter(tiers=frozenset({1}), namespaces=frozenset({space_of(9)}))

    assert wanted.select(_entry()) == b""


def test_a_batch_that_passes_whole_is_passed_on_as_it_is() -> None:
    """The log's own bytes are handed on when nothing is left out."""
    entry = _entry()

    unfiltered = EventFilter().select(entry)
    all_pass = EventFilter(media=frozenset({GPU, CPU})).select(entry)

    assert unfiltered is entry.basic
    assert all_pass is entry.basic


def test_token_ids_come_with_the_full_view_only() -> None:
    """The same filter with and without token ids differs in nothing else."""
    wanted = EventFilter(tiers=frozenset({1}), namespaces=frozenset({space_of(1)}))
    full = EventFilter(wanted.tiers, wanted.media, wanted.namespaces, full=True)

    basic_stored = _batch(wanted.select(_entry())).stored[0]
    full_stored = _batch(full.select(_entry())).stored[0]

    assert list(basic_stored.token_ids) == []
    assert list(full_stored.token_ids) == [7]
    assert basic_stored.tier == full_stored.tier == "d"
