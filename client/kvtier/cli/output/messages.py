"""Messages as records: proto names, bytes in hexadecimal, numbers as numbers."""

from collections.abc import Callable
from functools import cache
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

_SCALARS = (str, bytes, int, float)


def to_record(message: Message) -> dict[str, Any]:
    """Return every field of a message by its proto name.

    Bytes and fixed-width numbers (ids, checksums) become hexadecimal text, enum values their
    proto names, durations and timestamps what they are in proto3 JSON. An unset message is None.
    """
    record = {}
    for name, convert in _plan(message.DESCRIPTOR):
        value = getattr(message, name)
        if isinstance(value, _SCALARS):
            record[name] = convert(value)
        elif not isinstance(value, Message):
            record[name] = [convert(item) for item in value]
        else:
            record[name] = convert(value) if message.HasField(name) else None
    return record


def word(value: str | int, prefix: str) -> str:
    """Return an enum value of a record as people say it: `word("MEDIUM_GPU", "MEDIUM_")` is "gpu".

    A value that this version has no name for is a number, and stays one.
    """
    return str(value).removeprefix(prefix).lower().replace("_", " ")


def number(value: int | None) -> str:
    """Return a number as text; empty for None."""
    return "" if value is None else str(value)


@cache
def _plan(descriptor: Descriptor) -> list[tuple[str, Callable[[Any], Any]]]:
    return [(f.name, _converter(f)) for f in descriptor.fields]


def _converter(field: FieldDescriptor) -> Callable[[Any], Any]:
    if field.message_type is not None:
        return _message
    if field.enum_type is not None:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return lambda number: names.get(number, number)
    match field.type:
        case FieldDescriptor.TYPE_BYTES:
            return bytes.hex
        case FieldDescriptor.TYPE_FIXED64:
            return "{:016x}".format
        case _:
            return lambda value: value


def _message(message: Message) -> Any:
    if isinstance(message, Duration | Timestamp):
        return message.ToJsonString()
    return to_record(message)
