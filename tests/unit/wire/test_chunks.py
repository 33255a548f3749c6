"""Messages with data: framed by hand, and understood however another framed them."""

import time
from collections.abc import Iterator

import pytest
from google.protobuf.message import DecodeError, Message
from hypothesis import example, given
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from kvtier.v1.block_pb2 import Lease
from kvtier.v1.transfer_service_pb2 import ReadBlocksResponse, WriteBlocksRequest
from kvtier.wire.chunks import Block, cut, encode_chunk, split

KINDS = (WriteBlocksRequest, ReadBlocksResponse)


def long_varint(value: int, length: int) -> bytes:
    """A number in as many bytes as asked for, which is more than it needs or just enough."""
    parts = [value >> 7 * i & 0x7F for i in range(max(length, (value.bit_length() + 6) // 7, 1))]
    return bytes([part | 0x80 for part in parts[:-1]] + parts[-1:])


def fields() -> st.SearchStrategy[bytes]:
    """Fields of any number and type, known and unknown, some with more bytes than they need."""
    numbers = st.sampled_from([1, 2, 3, 4, 5, 14, 15, 16, 2000])
    lengths = st.sampled_from([1, 1, 1, 2, 3])
    values = st.integers(0, (1 << 64) - 1) | st.integers(0, 300)
    blobs = st.binary(max_size=20) | st.just(Lease(id=b"i" * 16).SerializeToString())
    return st.one_of(
        st.builds(
            lambda n, a, v, b: long_varint(n << 3, a) + long_varint(v, b),
            *(numbers, lengths, values, lengths),
        ),
        st.builds(
            lambda n, a, v: long_varint(n << 3 | 1, a) + v,
            *(numbers, lengths, st.binary(min_size=8, max_size=8)),
        ),
        st.builds(
            lambda n, a, v, b: long_varint(n << 3 | 2, a) + long_varint(len(v), b) + v,
            *(numbers | st.just(15), lengths, blobs, lengths),
        ),
        st.builds(
            lambda n, a, v: long_varint(n << 3 | 5, a) + v,
            *(numbers, lengths, st.binary(min_size=4, max_size=4)),
        ),
        # A group of unknown fields, and the ends of one that never began.
        st.builds(lambda n: long_varint(n << 3 | 3, 1) + long_varint(n << 3 | 4, 1), numbers),
        st.sampled_from([b"\0\0", b"\x0c", b"\x7b", b"\xff" * 11]),
    )


def parsed(kind: type[Message], encoded: bytes) -> tuple[Message, bytes] | None:
    """What the generated class makes of bytes, or None when they are no message."""
    try:
        message = kind.FromString(encoded)
    except DecodeError:
        return None
    data: bytes = message.data  # type: ignore[attr-defined]
    message.ClearField("data")
    return message, data


def taken_apart(kind: type[Message], encoded: bytes) -> tuple[Message, bytes] | None:
    """The same by hand."""
    try:
        message, data = split(kind, encoded)
    except DecodeError:
        return None
    return message, bytes(data)


@pytest.mark.parametrize("kind", KINDS)
@given(encoded=st.lists(fields(), max_size=6).map(b"".join), cut_off=st.integers(0, 3))
@example(encoded=b"\x7a\x02ab\x7a\x01c", cut_off=0)
@example(encoded=b"\x7a\x02ab\x18\x01", cut_off=0)
@example(encoded=b"\x0b\x7a\x01a\x0c\x7a\x01b", cut_off=0)
@example(encoded=b"\x12\x02\xff\xff\x7a\x01b", cut_off=0)
def test_every_encoding_is_understood_as_protobuf_does(
    kind: type[Message], encoded: bytes, cut_off: int
) -> None:
    """Fields in any order, twice, unknown or broken: the same message, or no message for both."""
    encoded = encoded[: len(encoded) - cut_off]

    assert taken_apart(kind, encoded) == parsed(kind, encoded)


@pytest.mark.parametrize("kind", KINDS)
@given(encoded=st.binary(max_size=40))
def test_any_bytes_are_understood_as_protobuf_does(kind: type[Message], encoded: bytes) -> None:
    """Noise is refused when protobuf refuses it, and never by another error."""
    assert taken_apart(kind, encoded) == parsed(kind, encoded)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("before", [b"", b"\x18", b"\x7a"], ids=["tag", "number", "length"])
def test_a_number_without_end_is_refused_at_once(kind: type[Message], before: bytes) -> None:
    """A message that is one long number costs no more than its first bytes."""
    encoded = before + b"\xff" * (1 << 20)

    begin = time.process_time()
    with pytest.raises(DecodeError):
        split(kind, encoded)

    # Taken for a number of a million digits it would be the better part of a minute.
    assert time.process_time() - begin < 1


@pytest.mark.parametrize("kind", KINDS)
def test_fields_without_end_cost_no_more_than_protobuf_takes(kind: type[Message]) -> None:
    """Millions of tiny fields are left to protobuf's own code, which is quick."""
    encoded = b"\x18\x01" * (4 << 20)

    begin = time.process_time()
    message, data = split(kind, encoded)

    assert (message, bytes(data)) == (kind.FromString(encoded), b"")
    assert time.process_time() - begin < 1


def test_data_at_the_end_is_not_copied() -> None:
    """The view is of the message itself, and the message holds no second copy."""
    encoded = WriteBlocksRequest(block_index=3, data=b"x" * 1000).SerializeToString()

    message, data = split(WriteBlocksRequest, encoded)

    assert data.obj is encoded
    assert (message.block_index, message.data, bytes(data)) == (3, b"", b"x" * 1000)


@pytest.mark.parametrize("kind", KINDS)
@given(
    place=st.integers(0, (1 << 32) - 1),
    offset=st.integers(0, (1 << 64) - 1),
    checksums=st.lists(st.integers(0, (1 << 64) - 1), max_size=4),
    pieces=st.lists(st.binary(max_size=20), min_size=1, max_size=4).filter(any),
)
def test_what_is_framed_by_hand_is_what_protobuf_makes(
    kind: type[Message], place: int, offset: int, checksums: list[int], pieces: list[bytes]
) -> None:
    """Byte for byte, for requests of writes as for responses of reads."""
    fields = {"block_index": place, "offset": offset, "checksums": checksums}
    by_protobuf = kind(**fields, data=b"".join(pieces))

    by_hand = encode_chunk(place, offset, checksums, [memoryview(piece) for piece in pieces])

    assert by_hand == by_protobuf.SerializeToString(deterministic=True)


def test_other_fields_go_before_the_data() -> None:
    """A lease or an offer stands in the same message as the bytes."""
    lease = Lease(id=b"i" * 16, generation=7)
    before = WriteBlocksRequest(lease=lease).SerializeToString()

    encoded = encode_chunk(0, 0, [5], [b"abc"], before=before)

    assert WriteBlocksRequest.FromString(encoded) == WriteBlocksRequest(
        lease=lease, checksums=[5], data=b"abc"
    )


def test_a_block_is_asked_for_when_its_turn_comes() -> None:
    """What makes blocks runs one message ahead of the receiver, not through the whole call."""
    asked: list[int] = []

    def blocks() -> Iterator[Block]:
        for place in range(4):
            asked.append(place)
            data = bytes([place]) * 10
            yield Block(place, memoryview(data), xxh3_64_intdigest(data))

    messages = cut(blocks(), 10)
    next(messages)

    assert asked == [0]
