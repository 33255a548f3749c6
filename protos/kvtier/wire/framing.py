"""Protobuf fields written by hand, for messages that are joined from encoded parts.

The wire format is the public one of protobuf: a tag is `field << 3 | type`, and a
length-delimited field is tag, length, bytes.
"""

from collections.abc import Sequence
from functools import lru_cache

_VARINT = 0
_FIXED64 = 1
_BYTES = 2


_CONTINUED = [bytes((low | 0x80,)) for low in range(0x80)]


def varint(value: int) -> bytes:
    """Return an unsigned number as a protobuf varint."""
    if value < 0x80:
        return _varint(value)
    # A number that counts on has a new low end each time, and seldom a new rest.
    return _CONTINUED[value & 0x7F] + _varint(value >> 7)


@lru_cache(maxsize=4096)
def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint_field(field: int, value: int) -> bytes:
    """Return a varint field; nothing for 0, as proto3 has it."""
    return varint(field << 3 | _VARINT) + varint(value) if value else b""


def fixed64_field(field: int, value: int) -> bytes:
    """Return a fixed64 field; nothing for 0, as proto3 has it."""
    return varint(field << 3 | _FIXED64) + value.to_bytes(8, "little") if value else b""


def bytes_field(field: int, value: bytes) -> bytes:
    """Return a length-delimited field: bytes, a string, or an encoded message."""
    return varint(field << 3 | _BYTES) + varint(len(value)) + value


@lru_cache(maxsize=4096)
def bytes_field_header(field: int, length: int) -> bytes:
    """Return the tag and length that go before `length` bytes of a length-delimited field."""
    return varint(field << 3 | _BYTES) + varint(length)


def fitting(parts: Sequence[bytes], most: int) -> int:
    """Return how many of the first parts make a message of at most so many bytes; at least one."""
    size = 0
    for count, part in enumerate(parts):
        size += len(part)
        if size > most:
            return max(count, 1)
    return len(parts)
