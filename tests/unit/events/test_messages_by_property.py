"""Whatever is written by hand, the generated classes read it back field by field."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kvtier.server.events.encode import (
    encode_batch,
    encode_cleared,
    encode_removed,
    encode_stored,
    removed_header,
    stored_header,
)
from kvtier.server.events.messages import Messages
from kvtier.server.events.parts import CLEARED, REMOVED, STORED
from kvtier.server.events.source import TierInfo
from kvtier.v1.block_pb2 import Locality, Medium, RemovalReason
from kvtier.v1.event_service_pb2 import (
    BlockRemoved,
    BlockStored,
    EventBatch,
    EventBatches,
    Progress,
    Reset,
    ResetReason,
    SnapshotPage,
    State,
    Synced,
    TierCleared,
    TierState,
    WatchEventsResponse,
)
from kvtier.v1.namespace_pb2 import Namespace
from kvtier.wire.framing import bytes_field, fixed64_field, varint_field

from .virtual_time import patient

U32, U64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
_names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=253)
_media = st.sampled_from([Medium.MEDIUM_GPU, Medium.MEDIUM_CPU])
_spaces = st.binary(min_size=32, max_size=32)
_hashes = st.binary(min_size=8, max_size=300)
_cleared = st.builds(TierCleared, tier=_names, medium=_media, namespace=_spaces | st.just(b""))
_removed = st.builds(
    BlockRemoved,
    tier=_names,
    medium=_media,
    namespace=_spaces,
    group=U32,
    scope=st.binary(max_size=32),
    reason=st.sampled_from(RemovalReason.values()),
    block_hashes=_hashes,
)
_stored = st.builds(
    BlockStored,
    tier=_names,
    medium=_media,
    namespace=_spaces,
    group=U32,
    scope=st.binary(max_size=32),
    adapter_name=_names | st.just(""),
    run_lengths=st.lists(U32, max_size=5),
    start_positions=st.lists(U64, min_size=1, max_size=5),
    parent_block_hashes=st.binary(max_size=64),
    block_hashes=_hashes,
)
_batches = st.builds(
    EventBatch,
    sequence=st.integers(1, 2**64 - 1),
    cleared=st.lists(_cleared, max_size=3),
    removed=st.lists(_removed, max_size=3),
    stored=st.lists(_stored, max_size=3),
)


def written_stored(event: BlockStored) -> bytes:
    where = (event.tier, event.medium, event.namespace, event.group, event.scope)
    return encode_stored(
        stored_header(*where, event.adapter_name),
        list(event.run_lengths),
        list(event.start_positions),
        event.parent_block_hashes,
        event.block_hashes,
    )


def written_removed(event: BlockRemoved) -> bytes:
    where = (event.tier, event.medium, event.namespace, event.group, event.scope)
    return encode_removed(removed_header(*where), event.reason, event.block_hashes)


def written_batch(batch: EventBatch) -> bytes:
    cleared = [encode_cleared(e.tier, e.medium, e.namespace) for e in batch.cleared]
    parts = [bytes_field(CLEARED, each) for each in cleared]
    parts += [bytes_field(REMOVED, written_removed(event)) for event in batch.removed]
    parts += [bytes_field(STORED, written_stored(event)) for event in batch.stored]
    return encode_batch(batch.sequence, parts)


@patient
@given(st.lists(_batches, max_size=4))
def test_batches_come_back_whole(batches: list[EventBatch]) -> None:
    """Any batches, one after the other, are the EventBatches of them, and no byte longer."""
    expected = EventBatches(batches=batches)

    written = b"".join(map(written_batch, batches))

    assert EventBatches.FromString(written) == expected
    assert len(written) == expected.ByteSize()


def expected(node: str, epoch: int, after: int, through: int, **kind: Any) -> WatchEventsResponse:
    return WatchEventsResponse(node_id=node, epoch=epoch, after=after, through=through, **kind)


@patient
@given(node=_names, epoch=U64, after=U64, through=U64, number=U64, data=st.data())
def test_every_kind_of_message_comes_back_whole(
    *, node: str, epoch: int, after: int, through: int, number: int, data: st.DataObject
) -> None:
    """Node, epoch and span, and whatever the message brings; and no byte longer."""
    messages, span = Messages(node, epoch), (after, through)
    reason = data.draw(st.sampled_from(ResetReason.values()))
    stored = data.draw(st.lists(_stored, max_size=2))
    batches = data.draw(st.lists(_batches, max_size=2))
    pairs: list[tuple[bytes, dict[str, Any]]] = [
        (messages.reset(*span, reason), {"reset": Reset(reason=reason)}),
        (
            messages.page(*span, map(written_stored, stored)),
            {"snapshot": SnapshotPage(stored=stored)},
        ),
        (messages.synced(*span, number), {"synced": Synced(blocks=number)}),
        (
            messages.batches(*span, map(written_batch, batches)),
            {"batches": EventBatches(batches=batches)},
        ),
        (messages.progress(*span, number), {"progress": Progress(head=number)}),
    ]

    for written, kind in pairs:
        whole = expected(node, epoch, *span, **kind)
        assert WatchEventsResponse.FromString(written) == whole
        assert len(written) == whole.ByteSize()


@patient
@given(node=_names, epoch=U64, at=U64, tier=_names, seed=st.binary(max_size=64))
def test_messages_that_account_for_nothing_come_back_whole(
    node: str, epoch: int, at: int, tier: str, seed: bytes
) -> None:
    """The state of a tier and a namespace's description stand at one position."""
    messages, description = Messages(node, epoch), Namespace(name=tier, hash_seed=seed)
    ready = TierInfo(0, tier, Medium.MEDIUM_CPU, TierState.TIER_STATE_READY)

    state = messages.tier_state(at, ready)
    namespace = messages.namespace(at, description.SerializeToString())

    told = State(
        tier=tier,
        tier_state=TierState.TIER_STATE_READY,
        medium=Medium.MEDIUM_CPU,
        locality=Locality.LOCALITY_LOCAL,
    )
    assert WatchEventsResponse.FromString(state) == expected(node, epoch, at, at, state=told)
    assert WatchEventsResponse.FromString(namespace) == expected(
        node, epoch, at, at, namespace=description
    )


@patient
@given(number=U64, text=st.binary(max_size=300))
def test_single_fields_are_as_the_generated_classes_write_them(number: int, text: bytes) -> None:
    """Numbers and bytes; a number of 0 is left out."""
    assert varint_field(1, number) == Synced(blocks=number).SerializeToString()
    assert fixed64_field(2, number) == WatchEventsResponse(epoch=number).SerializeToString()
    if text:
        assert bytes_field(10, text) == BlockStored(block_hashes=text).SerializeToString()
