"""Checks of a caller's arguments, so that an error names the argument that is wrong."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

import grpc
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

from kvtier.client.errors import InvalidArgumentError
from kvtier.wire.errors import Reason, quote

if TYPE_CHECKING:
    from typing_extensions import Buffer

M = TypeVar("M", bound=Message)

_MAX_SECONDS = 315_576_000_000
_WORDS = {
    FieldDescriptor.TYPE_UINT32: f"a whole number from 0 to {2**32 - 1}",
    FieldDescriptor.TYPE_UINT64: f"a whole number from 0 to {2**64 - 1}",
    FieldDescriptor.TYPE_INT32: f"a whole number from {-(2**31)} to {2**31 - 1}",
    FieldDescriptor.TYPE_ENUM: f"a whole number from {-(2**31)} to {2**31 - 1}",
    FieldDescriptor.TYPE_BOOL: "true or false",
    FieldDescriptor.TYPE_STRING: "text that UTF-8 can hold",
    FieldDescriptor.TYPE_BYTES: "bytes",
}


def bad_argument(message: str) -> InvalidArgumentError:
    """Return the error of an argument that was refused before any call."""
    return InvalidArgumentError(grpc.StatusCode.INVALID_ARGUMENT, Reason.BAD_REQUEST, message)


def build(kind: type[M], **fields: object) -> M:
    """Return a message with these fields; None leaves a field unset.

    Raises:
        InvalidArgumentError: When a field cannot hold its value; it names both.
    """
    for name, value in fields.items():
        # Text is a sequence of texts too, and would be taken letter by letter.
        if isinstance(value, str) and not isinstance(getattr(kind(), name), str):
            raise _refused(kind, name, value)
    try:
        return kind(**fields)
    except (TypeError, ValueError):
        raise _first_refused(kind, fields) from None


def _first_refused(kind: type[Message], fields: Mapping[str, object]) -> InvalidArgumentError:
    for name, value in fields.items():
        try:
            kind(**{name: value})
        except (TypeError, ValueError):
            return _refused(kind, name, value)
    raise AssertionError("each field is accepted alone")


def _refused(kind: type[Message], name: str, value: object) -> InvalidArgumentError:
    field = kind.DESCRIPTOR.fields_by_name[name]
    message = field.message_type
    one = f"a {message.name} message" if message is not None else _WORDS[field.type]
    repeated = not isinstance(getattr(kind(), name), str | bytes | int | float | Message)
    expected = f"a sequence, each {one}" if repeated else one
    return bad_argument(f"{name} must be {expected}; got {quote(value)}")


def duration(name: str, seconds: float | None) -> Duration | None:
    """Return seconds as a protobuf duration; None stays None.

    Raises:
        InvalidArgumentError: When it is no positive finite number, or more than 10,000 years.
    """
    if seconds is None:
        return None
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        raise bad_argument(f"{name} must be a number of seconds; got {quote(seconds)}")
    if not math.isfinite(seconds) or not 0 < seconds <= _MAX_SECONDS:
        raise bad_argument(f"{name} must be more than 0 seconds and finite; got {quote(seconds)}")
    whole = int(seconds)
    return Duration(seconds=whole, nanos=int((seconds - whole) * 1e9))


def check_seconds(name: str, value: object) -> None:
    """Raise INVALID_ARGUMENT when a value is no number of seconds above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise bad_argument(f"{name} must be more than 0 seconds; got {quote(value)}")


def view_bytes(name: str, payload: "Buffer") -> memoryview:
    """Return the bytes of a buffer without a copy.

    Raises:
        InvalidArgumentError: When it is no contiguous buffer.
    """
    try:
        return memoryview(payload).cast("B")
    except TypeError:
        raise bad_argument(
            f"{name} must be a contiguous buffer of bytes; got {type(payload).__name__}"
        ) from None
