"""Bad values for every field of a message, found by walking its descriptor."""

import random
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, NamedTuple

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from kvtier.wire.framing import bytes_field, bytes_field_header, varint

MIB = 1 << 20
MANY = 5000
_VARINT, _FIXED64 = 0, 1
_WIDTHS = {
    FieldDescriptor.TYPE_UINT32: 32,
    FieldDescriptor.TYPE_INT32: 32,
    FieldDescriptor.TYPE_ENUM: 32,
    FieldDescriptor.TYPE_UINT64: 64,
    FieldDescriptor.TYPE_INT64: 64,
    FieldDescriptor.TYPE_FIXED64: 64,
}
_SIGNED = {
    FieldDescriptor.TYPE_INT32,
    FieldDescriptor.TYPE_INT64,
    FieldDescriptor.TYPE_ENUM,
}


class Bad(NamedTuple):
    """One damaged message.

    Attributes:
        path: The field that is damaged, from the outermost message on; empty for the whole.
        kind: What is wrong with it.
        data: The encoded message.
    """

    path: tuple[str, ...]
    kind: str
    data: bytes

    @property
    def field(self) -> str:
        return self.path[-1] if self.path else ""

    def __str__(self) -> str:
        return f"{'.'.join(self.path) or 'the whole'}: {self.kind}"


def damaged(message: Message) -> Iterator[Bad]:
    """Yield a message with each of its set fields damaged in each way, and damaged as a whole."""
    yield from _damaged_fields(message)
    yield from _damaged_whole(message.SerializeToString())


def fields_that_are_set(message: Message) -> Iterator[str]:
    """Yield the name of every field that has a value, after its message's."""
    for field, value in message.ListFields():
        yield f"{message.DESCRIPTOR.name}.{field.name}"
        for part in _parts(field, value):
            yield from fields_that_are_set(part)


def _damaged_fields(message: Message) -> Iterator[Bad]:
    for field, value in message.ListFields():
        rest = deepcopy(message)
        rest.ClearField(field.name)
        without = rest.SerializeToString()
        for path, kind, data in _damaged_field(field, value):
            yield Bad((field.name, *path), kind, without + data)


def _damaged_field(field: FieldDescriptor, value: Any) -> Iterator[Bad]:
    yield Bad((), "absent", b"")
    if _is_list(value):
        first, *others = [_encoded(field, each) for each in value]
        rest = b"".join(others)
        yield Bad((), "twice", first + first + rest)
        yield Bad((), "many", first * MANY)
        for bad in _damaged_value(field, value[0]):
            yield Bad(bad.path, bad.kind, bad.data + rest)
    else:
        yield from _damaged_value(field, value)


def _damaged_value(field: FieldDescriptor, value: Any) -> Iterator[Bad]:
    number = field.number
    if field.message_type is not None:
        yield Bad((), "empty", bytes_field(number, b""))
        for bad in _damaged_fields(value):
            yield Bad(bad.path, bad.kind, bytes_field(number, bad.data))
    elif field.type in {FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES}:
        values = _texts(value) if isinstance(value, str) else _byte_strings(value)
        for kind, data in values:
            yield Bad((), kind, bytes_field(number, data))
        yield Bad((), "claims more than comes", bytes_field_header(number, 1 << 31) + b"x")
    elif field.type in _WIDTHS:
        for kind, other in _numbers(field):
            yield Bad((), kind, _number_field(field, other))
        yield Bad((), "endless number", varint(number << 3) + b"\xff" * 11)


def _texts(good: str) -> Iterator[tuple[str, bytes]]:
    yield "NUL", good.encode() + b"\0"
    yield "line break", b"a\nb" + good.encode()
    yield "1 MiB", b"x" * MIB
    yield "another", b"never-heard-of"
    yield "path", b"../../etc/passwd"
    yield "not UTF-8", b"\xff\xfe\xfd"


def _byte_strings(good: bytes) -> Iterator[tuple[str, bytes]]:
    yield "one byte", b"?"
    yield "a byte less", good[:-1]
    yield "a byte more", good + b"\0"
    yield "NULs", bytes(len(good))
    yield "another", b"?" * len(good)
    yield "twice as long", good + good
    yield "1 MiB", bytes(MIB)


def _numbers(field: FieldDescriptor) -> Iterator[tuple[str, int]]:
    width = _WIDTHS[field.type]
    signed = field.type in _SIGNED
    yield "largest", (1 << width - signed) - 1
    yield "half of the largest", 1 << width - 2
    if signed:
        yield "smallest", -(1 << width - 1)
        yield "-1", -1
    else:
        yield "-1 as others write it", (1 << 64) - 1
    if field.enum_type is not None:
        yield "unknown", max(field.enum_type.values_by_number) + 1


def _number_field(field: FieldDescriptor, value: int) -> bytes:
    value &= (1 << 64) - 1
    if field.type == FieldDescriptor.TYPE_FIXED64:
        return varint(field.number << 3 | _FIXED64) + value.to_bytes(8, "little")
    return varint(field.number << 3 | _VARINT) + varint(value)


def _encoded(field: FieldDescriptor, value: Any) -> bytes:
    if isinstance(value, Message):
        return bytes_field(field.number, value.SerializeToString())
    if isinstance(value, str | bytes):
        return bytes_field(field.number, value.encode() if isinstance(value, str) else value)
    return _number_field(field, value)


def _parts(field: FieldDescriptor, value: Any) -> list[Message]:
    if field.message_type is None:
        return []
    return list(value) if _is_list(value) else [value]


def _is_list(value: Any) -> bool:
    # How a descriptor says so differs from one protobuf to the next.
    return hasattr(value, "append")


def _damaged_whole(good: bytes) -> Iterator[Bad]:
    step = max(1, len(good) // 40)
    for length in range(0, len(good), step):
        yield Bad((), f"cut to {length} bytes", good[:length])
    yield Bad((), "wire type 7", b"\x0f")
    yield Bad((), "field 0", b"\x00\x01")
    yield Bad((), "an end without a beginning", b"\x0c")
    yield Bad((), "groups without end", b"\x0b" * 1000)
    rng = random.Random(len(good))
    for turn in range(20):
        yield Bad((), f"noise {turn}", rng.randbytes(1 + turn * 5))
        spoiled = bytearray(good)
        if spoiled:
            spoiled[rng.randrange(len(spoiled))] ^= 1 << rng.randrange(8)
        yield Bad((), f"a flipped bit, {turn}", bytes(spoiled))
