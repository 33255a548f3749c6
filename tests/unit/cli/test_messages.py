"""Messages and event streams as records."""

import json

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from kvtier.cli.events import EventReader
from kvtier.cli.output.messages import to_record
from kvtier.v1 import event_service_pb2, tier_pb2
from kvtier.v1.block_pb2 import Medium, RemovalReason
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

NAMESPACE = Namespace(name="demo", hash_width=8, block_bytes=[64])
FINGERPRINT = fingerprint(NAMESPACE)
A, B = b"a" * 8, b"b" * 8


def test_a_message_becomes_json_by_its_proto_names() -> None:
    """Bytes and ids are hexadecimal, enums their names, times as in proto3 JSON."""
    block = tier_pb2.Block(
        tier="cpu0",
        namespace=b"\x01\xff",
        block_hash=b"\xab\xcd",
        size_bytes=2**63,
        checksum=255,
        stored_time=Timestamp(seconds=1),
    )

    record = to_record(block)

    assert list(record) == [field.name for field in tier_pb2.Block.DESCRIPTOR.fields]
    assert record["namespace"] == "01ff"
    assert record["block_hash"] == "abcd"
    assert record["size_bytes"] == 2**63
    assert record["checksum"] == "00000000000000ff"
    assert record["stored_time"] == "1970-01-01T00:00:01Z"
    assert record["leases"] == 0
    json.dumps(record)


def test_nested_and_unset_messages_are_told_apart() -> None:
    """A message that is not set is null, not an object of zeros."""
    node = tier_pb2.Node(limits=tier_pb2.Limits(lease_ttl=Duration(seconds=300)))

    record = to_record(node)

    assert record["limits"]["lease_ttl"] == "300s"
    assert record["head"] is None


def test_enum_values_of_tomorrow_stay_numbers() -> None:
    """A value that this version has no name for is kept."""
    tier = tier_pb2.Tier(medium=77)  # type: ignore[arg-type]

    assert to_record(tier)["medium"] == 77
    assert to_record(tier_pb2.Tier(medium=Medium.MEDIUM_GPU))["medium"] == "MEDIUM_GPU"


def _message(**kind: object) -> WatchEventsResponse:
    return WatchEventsResponse(node_id="n", epoch=5, after=1, through=2, **kind)  # type: ignore[arg-type]


@pytest.fixture(name="reader")
def _reader() -> EventReader:
    reader = EventReader()
    list(reader.read(_message(namespace=NAMESPACE)))
    return reader


def test_a_batch_is_told_clears_first_then_removals_then_stores(reader: EventReader) -> None:
    """Events come in the order in which a follower applies them, hashes one by one."""
    stored = BlockStored(
        tier="cpu0", namespace=FINGERPRINT, block_hashes=A + B, start_positions=[0]
    )
    removed = BlockRemoved(
        tier="cpu0",
        namespace=FINGERPRINT,
        block_hashes=B,
        reason=RemovalReason.REMOVAL_REASON_EVICTED,
    )
    batch = EventBatch(
        sequence=2,
        stored=[stored],
        removed=[removed],
        cleared=[TierCleared(tier="cpu0")],
    )

    (records,) = reader.read(_message(batches=EventBatches(batches=[batch])))

    assert [record["event"] for record in records] == ["cleared", "removed", "stored"]
    assert [record["sequence"] for record in records] == [2, 2, 2]
    assert records[1]["reason"] == "REMOVAL_REASON_EVICTED"
    assert records[1]["block_hashes"] == [B.hex()]
    assert records[2]["block_hashes"] == [A.hex(), B.hex()]
    assert records[2]["namespace_name"] == "demo"
    assert records[2]["parent_block_hashes"] == []


def test_blocks_of_a_snapshot_have_no_sequence(reader: EventReader) -> None:
    """What a tier holds is told apart from what just happened."""
    stored = BlockStored(tier="cpu0", namespace=FINGERPRINT, block_hashes=A, start_positions=[0])

    ((record,),) = reader.read(_message(snapshot=SnapshotPage(stored=[stored])))

    assert record["event"] == "stored"
    assert record["sequence"] is None


def test_resets_and_syncs_are_told_and_signs_of_life_are_not(reader: EventReader) -> None:
    """A follower hears of every new start; progress alone is no news."""
    (reset,) = reader.read(_message(reset=Reset(reason=ResetReason.RESET_REASON_LAGGED)))
    (synced,) = reader.read(_message(synced=Synced(blocks=7)))
    progress = list(reader.read(_message(progress=Progress(head=2))))

    assert [(r["event"], r["reason"]) for r in reset] == [("reset", "RESET_REASON_LAGGED")]
    assert [(r["event"], r["blocks"]) for r in synced] == [("synced", 7)]
    assert progress == []


def test_every_kind_of_message_can_be_read(reader: EventReader) -> None:
    """No kind that the API knows makes the reader fail."""
    for field in event_service_pb2.WatchEventsResponse.DESCRIPTOR.oneofs_by_name["kind"].fields:
        message = _message()
        getattr(message, field.name).SetInParent()
        if field.name == "namespace":
            message.namespace.CopyFrom(NAMESPACE)

        records = list(reader.read(message))

        assert all(json.dumps(record) for group in records for record in group)


def _stored(block_hash: bytes) -> BlockStored:
    return BlockStored(
        tier="cpu0", namespace=FINGERPRINT, block_hashes=block_hash, start_positions=[0]
    )


def _two_batches() -> WatchEventsResponse:
    removed = BlockRemoved(tier="cpu0", namespace=FINGERPRINT, block_hashes=A)
    batches = [
        EventBatch(sequence=2, removed=[removed], stored=[_stored(B)]),
        EventBatch(sequence=4, stored=[_stored(A)]),
    ]
    batched = _message(batches=EventBatches(batches=batches))
    batched.through = 5
    return batched


def test_every_position_is_one_from_which_nothing_is_missed(reader: EventReader) -> None:
    """Within a batch the position is the one before it; its last record has the batch's own."""
    list(reader.read(_message(synced=Synced())))

    first, second = reader.read(_two_batches())

    assert [record["position"] for record in first] == [f"{5:016x}:1", f"{5:016x}:2"]
    assert [record["position"] for record in second] == [f"{5:016x}:4"]


def test_what_is_not_complete_has_no_position(reader: EventReader) -> None:
    """From a reset to the synced after it there is nothing to resume."""
    snapshot = SnapshotPage(stored=[_stored(A)])
    messages = [
        _message(synced=Synced()),
        _message(reset=Reset()),
        _message(namespace=NAMESPACE),
        _message(snapshot=snapshot),
        _two_batches(),
        _message(synced=Synced(blocks=1)),
    ]

    records = [r for message in messages for group in reader.read(message) for r in group]

    assert [record["position"] is not None for record in records] == [True, *6 * [False], True]


def test_a_resumed_stream_has_a_position_from_the_start() -> None:
    """Until the node answers, the position is the one that was asked for."""
    connecting = _message(state=State(source=SourceState.SOURCE_STATE_CONNECTING))

    ((resumed,),) = EventReader(["n"]).read(connecting)
    ((other,),) = EventReader().read(connecting)

    assert resumed["position"] == f"{5:016x}:2"
    assert other["position"] is None
