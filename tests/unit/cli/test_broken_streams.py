"""Event streams that break their grammar are told in one line."""

import pytest

from kvtier.cli.events import EventReader
from kvtier.cli.exit import CommandError, conclude
from kvtier.cli.follow import Follower
from kvtier.cli.replay import replay_namespace
from kvtier.v1.event_service_pb2 import (
    BlockRemoved,
    BlockStored,
    EventBatch,
    EventBatches,
    SnapshotPage,
    Synced,
    WatchEventsResponse,
)
from kvtier.v1.namespace_pb2 import Namespace
from kvtier.wire.namespaces import fingerprint

KNOWN = replay_namespace(64)
FINGERPRINT = fingerprint(KNOWN)


def _message(**kind: object) -> WatchEventsResponse:
    return WatchEventsResponse(node_id="n1", epoch=1, **kind)  # type: ignore[arg-type]


def _batch(**events: object) -> WatchEventsResponse:
    batch = EventBatch(sequence=1, **events)  # type: ignore[arg-type]
    return _message(batches=EventBatches(batches=[batch]))


def _of_width(width: int) -> WatchEventsResponse:
    described = Namespace()
    described.CopyFrom(KNOWN)
    described.hash_width = width
    return _message(namespace=described)


BAD = {
    "an undescribed namespace": _batch(
        stored=[BlockStored(tier="t", namespace=b"?" * 32, block_hashes=b"h" * 32)]
    ),
    "no namespace": _batch(removed=[BlockRemoved(tier="t", block_hashes=b"h" * 32)]),
    "half a hash": _batch(
        stored=[BlockStored(tier="t", namespace=FINGERPRINT, block_hashes=b"h" * 33)]
    ),
    "half a removed hash": _batch(
        removed=[BlockRemoved(tier="t", namespace=FINGERPRINT, block_hashes=b"h" * 31)]
    ),
    "hashes of no bytes": _of_width(0),
    "hashes of 4 GiB": _of_width(2**32 - 1),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_a_stream_that_cannot_be_read_is_one_line(
    bad: WatchEventsResponse, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever reads the events learns which node it is, what is wrong and what to do."""
    reader = EventReader()
    list(reader.read(_message(namespace=KNOWN)))

    with pytest.raises(CommandError) as raised:
        list(reader.read(bad))
    code = conclude(raised.value)

    (line,) = capsys.readouterr().err.splitlines()
    assert code == 1
    assert line.startswith("error: n1: its event stream cannot be read: ")
    assert "version" in line


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_a_stream_that_cannot_be_counted_is_an_error(bad: WatchEventsResponse) -> None:
    """A follower that counts blocks refuses what it cannot count."""
    follower = Follower()
    for message in (_message(namespace=KNOWN), _message(synced=Synced())):
        follower.apply(message)

    with pytest.raises(CommandError, match="n1: its event stream cannot be read"):
        follower.apply(bad)


def test_a_page_with_broken_parents_is_an_error() -> None:
    """Parents' hashes are read by the same rule as the blocks' own."""
    reader = EventReader()
    list(reader.read(_message(namespace=KNOWN)))
    part = BlockStored(
        tier="t", namespace=FINGERPRINT, block_hashes=b"h" * 32, parent_block_hashes=b"p"
    )

    with pytest.raises(CommandError, match="no multiple"):
        list(reader.read(_message(snapshot=SnapshotPage(stored=[part]))))
