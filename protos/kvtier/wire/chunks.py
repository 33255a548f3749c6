"""The messages that carry blocks' bytes, framed by hand so that the bytes are copied once.

The framing is that of `transfer_service.proto`: the bytes of a call's blocks are one stream, cut
anywhere; a message says at which block and offset its data starts, and carries the XXH3-64 of each
block that ends within it. Requests of writes and responses of reads have the same fields for that.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from google.protobuf.message import Message

from kvtier.wire.framing import bytes_field_header, varint_field

# Most bytes of data in a message. Fewer cost more turns of threads and loops, more move no faster.
CHUNK_BYTES = 2 << 20

M = TypeVar("M", bound=Message)

_BLOCK_INDEX, _OFFSET, _CHECKSUMS, _DATA = 3, 4, 5, 15
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_VARINT_BITS = 64
# A message with more fields before its data is nothing that anybody means to send.
_MOST_FIELDS = 64
_FIXED = {_FIXED64: 8, _FIXED32: 4}
_DATA_TAG = _DATA << 3 | _BYTES


class Chunk(NamedTuple):
    """The data of one message, and where it belongs.

    Attributes:
        block_index: The block at which the data starts.
        offset: Where in that block, in bytes.
        checksums: The XXH3-64 of each block that ends within the data, in order.
        data: The bytes.
    """

    block_index: int = 0
    offset: int = 0
    checksums: Sequence[int] = ()
    data: bytes | memoryview = b""


class Block(NamedTuple):
    """A block that is to be sent.

    Attributes:
        place: Its place in the call.
        data: Its bytes, at least one.
        checksum: Their XXH3-64.
    """

    place: int
    data: memoryview
    checksum: int


def cut(blocks: Iterable[Block], size: int = CHUNK_BYTES) -> Iterator[bytes]:
    """Yield encoded messages with the data of blocks, none with more than `size` bytes of it.

    A message runs on into the next block only when that has the next place, so that the receiver
    need not know which places are passed over. A block is asked for when the messages before it
    were taken.

    Args:
        blocks: The blocks, by ascending place.
        size: Most bytes of data in a message.
    """
    place, start, room = 0, 0, size
    pieces: list[memoryview] = []
    checksums: list[int] = []
    after = -1
    for index, payload, checksum in blocks:
        if pieces and index != after:
            yield encode_chunk(place, start, checksums, pieces)
            pieces, checksums, room = [], [], size
        offset = 0
        while offset < len(payload):
            if not pieces:
                place, start = index, offset
            piece = payload[offset : offset + room]
            pieces.append(piece)
            offset, room = offset + len(piece), room - len(piece)
            if offset == len(payload):
                checksums.append(checksum)
            if not room:
                yield encode_chunk(place, start, checksums, pieces)
                pieces, checksums, room = [], [], size
        after = index + 1
    if pieces:
        yield encode_chunk(place, start, checksums, pieces)


def encode_chunk(
    block_index: int,
    offset: int,
    checksums: Sequence[int],
    pieces: Sequence[bytes | memoryview],
    before: bytes = b"",
) -> bytes:
    """Return a message with data, which is copied once.

    Args:
        block_index: The block at which the data starts.
        offset: Where in that block.
        checksums: The XXH3-64 of each block that ends within the data.
        pieces: The data, in parts, in all at least one byte.
        before: Further fields of the message, encoded.
    """
    packed = struct.pack(f"<{len(checksums)}Q", *checksums)
    return b"".join(
        (
            before,
            varint_field(_BLOCK_INDEX, block_index),
            varint_field(_OFFSET, offset),
            bytes_field_header(_CHECKSUMS, len(packed)) if packed else b"",
            packed,
            bytes_field_header(_DATA, sum(map(len, pieces))),
            *pieces,
        )
    )


def split(kind: type[M], encoded: bytes) -> tuple[M, memoryview]:
    """Return a message of one of the kinds that carry data, without its data, and the data.

    The data is a view of `encoded`, when it is the last field as it should be; a message with its
    fields in another order is as valid, and is copied.

    Raises:
        DecodeError: When the bytes are no message.
    """
    start = _start_of_last_data(encoded)
    if start:
        tag, first = start
        return kind.FromString(encoded[:tag]), memoryview(encoded)[first:]
    message = kind.FromString(encoded)
    # Every kind that carries data has a field of this name.
    data: bytes = message.data  # type: ignore[attr-defined]
    message.ClearField("data")
    return message, memoryview(data)


def _start_of_last_data(encoded: bytes) -> tuple[int, int] | None:
    """Return where the tag of the data and where its bytes begin, if they reach to the end.

    What is odd in any way, or broken, is left to protobuf's own code: the answer is None.
    """
    at, end = 0, len(encoded)
    try:
        for _ in range(_MOST_FIELDS):
            begin = at
            tag, at = _varint(encoded, at)
            kind = tag & 7
            if kind == _BYTES:
                length, at = _varint(encoded, at)
                if tag == _DATA_TAG:
                    return (begin, at) if at + length == end else None
                at += length
            elif kind == _VARINT:
                _, at = _varint(encoded, at)
            else:
                at += _FIXED[kind]
    except (IndexError, KeyError, ValueError):
        pass
    return None


def _varint(encoded: bytes, at: int) -> tuple[int, int]:
    """Return a number and where the next field begins.

    Raises:
        IndexError: When the bytes end within it.
        ValueError: When it goes on for more than 64 bits.
    """
    byte = encoded[at]
    if byte < 0x80:
        return byte, at + 1
    value, shift = byte & 0x7F, 7
    while shift < _VARINT_BITS:
        at += 1
        byte = encoded[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
        shift += 7
    raise ValueError("a number of more than 64 bits")
