"""Framing: fields written by hand are what protobuf itself writes and reads."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtier.v1.block_pb2 import Position
from kvtier.v1.event_service_pb2 import EventBatches, WatchEventsResponse
from kvtier.v1.transfer_service_pb2 import ReadBlocksResponse
from kvtier.wire.framing import (
    bytes_field,
    bytes_field_header,
    fitting,
    fixed64_field,
    varint,
    varint_field,
)

UINT64 = st.integers(0, 2**64 - 1)


@given(UINT64, UINT64)
def test_number_fields_are_written_as_protobuf_writes_them(epoch: int, sequence: int) -> None:
    """Byte for byte, from 0, which is not written at all, to the largest number."""
    position = Position(epoch=epoch, sequence=sequence)

    assert fixed64_field(1, epoch) + varint_field(2, sequence) == position.SerializeToString()


@given(st.binary(min_size=1, max_size=300))
def test_a_bytes_field_is_written_as_protobuf_writes_it(data: bytes) -> None:
    """With its length as one or several bytes of varint, and a field number of one byte."""
    message = ReadBlocksResponse(data=data)

    assert bytes_field(15, data) == message.SerializeToString()


@given(st.integers(1, 2**29 - 1), st.binary(max_size=300))
def test_a_header_and_its_bytes_are_a_field(field: int, data: bytes) -> None:
    """Bytes can be passed through behind the header without a copy into a message."""
    assert bytes_field_header(field, len(data)) + data == bytes_field(field, data)


@given(st.text(max_size=20), UINT64, UINT64, st.lists(UINT64, max_size=5))
def test_a_message_joined_from_parts_parses_as_the_generated_one(
    node_id: str, epoch: int, through: int, sequences: list[int]
) -> None:
    """Batches are encoded once and joined behind the header of each follower's message."""
    batches = b"".join(bytes_field(1, varint_field(1, n)) for n in sequences)
    head = bytes_field(1, node_id.encode()) + fixed64_field(2, epoch) + varint_field(4, through)

    got = WatchEventsResponse.FromString(head + bytes_field(8, batches))

    want = EventBatches()
    for n in sequences:
        want.batches.add(sequence=n)
    assert (got.node_id, got.epoch, got.through) == (node_id, epoch, through)
    assert got.batches == want


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (16383, "ff7f"), (16384, "808001")],
)
def test_a_varint_has_seven_bits_a_byte(value: int, encoded: str) -> None:
    """The examples of the protobuf documentation."""
    assert varint(value).hex() == encoded


@pytest.mark.parametrize(
    ("sizes", "count"), [([3, 4, 3, 1], 3), ([10], 1), ([11, 1], 1), ([1, 11], 1), ([], 0)]
)
def test_as_many_parts_share_a_message_as_fit(sizes: Sequence[int], count: int) -> None:
    """A part that is too large by itself goes alone, since it has to go."""
    assert fitting([bytes(size) for size in sizes], 10) == count


@pytest.mark.parametrize("write", [varint_field, fixed64_field])
def test_a_negative_number_is_refused(write: Callable[[int, int], bytes]) -> None:
    """Nothing that protobuf would read as another number is ever written."""
    with pytest.raises((ValueError, OverflowError)):
        write(1, -1)
