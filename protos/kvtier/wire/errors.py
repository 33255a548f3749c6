"""Errors as they travel: a gRPC code, a reason, a sentence, and when to try again.

On the wire an error is a `google.rpc.Status` in the trailer `grpc-status-details-bin`, with an
`ErrorInfo` (domain `kvtier`) and, where waiting helps, a `RetryInfo`. This is the scheme of
AIP-193; the trailer is written by hand so that nothing but `googleapis-common-protos` is needed.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum

import grpc
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

DOMAIN = "kvtier"
DETAILS_TRAILER = "grpc-status-details-bin"
# In an error's metadata: which of the settings under `limits` was reached.
LIMIT = "limit"
# A peer drops a call whose trailers exceed 8 KiB; these keep every error well below that.
_MAX_MESSAGE = 1024
_MAX_VALUE = 256
_MAX_METADATA = 3072
_MAX_RETRY_AFTER = 3600.0
_CODES = {code.value[0]: code for code in grpc.StatusCode}


class Reason(StrEnum):
    """Why a call was refused; stable, for programs."""

    BAD_REQUEST = "BAD_REQUEST"
    PAGE_TOKEN_INVALID = "PAGE_TOKEN_INVALID"  # noqa: S105 - not a secret
    NAMESPACE_UNKNOWN = "NAMESPACE_UNKNOWN"
    TIER_UNKNOWN = "TIER_UNKNOWN"
    LEASE_UNKNOWN = "LEASE_UNKNOWN"
    BLOCK_UNKNOWN = "BLOCK_UNKNOWN"
    SERVICE_UNKNOWN = "SERVICE_UNKNOWN"
    NAMESPACE_DIFFERS = "NAMESPACE_DIFFERS"
    BLOCK_TOO_LARGE = "BLOCK_TOO_LARGE"
    BLOCKS_LEASED = "BLOCKS_LEASED"
    TIER_FULL = "TIER_FULL"
    TIER_READ_ONLY = "TIER_READ_ONLY"
    TIER_RECOVERING = "TIER_RECOVERING"
    LEASE_LIMIT = "LEASE_LIMIT"
    NAMESPACE_LIMIT = "NAMESPACE_LIMIT"
    FOLLOWER_LIMIT = "FOLLOWER_LIMIT"
    FOLLOWER_STALLED = "FOLLOWER_STALLED"
    SNAPSHOT_LIMIT = "SNAPSHOT_LIMIT"
    RESET_LIMIT = "RESET_LIMIT"
    TRANSFER_LIMIT = "TRANSFER_LIMIT"
    CALL_LIMIT = "CALL_LIMIT"
    LEASE_ENDED = "LEASE_ENDED"
    LEASE_REUSED = "LEASE_REUSED"
    NOT_MAPPABLE = "NOT_MAPPABLE"
    MAPPING_UNKNOWN = "MAPPING_UNKNOWN"
    PEER_NOT_ALLOWED = "PEER_NOT_ALLOWED"
    PEER_UNREACHABLE = "PEER_UNREACHABLE"
    NO_IDENTITY = "NO_IDENTITY"
    BAD_TOKEN = "BAD_TOKEN"  # noqa: S105 - not a secret
    REVOKED = "REVOKED"
    NOT_ALLOWED = "NOT_ALLOWED"
    DRAINING = "DRAINING"
    PROXY_ONLY_READS = "PROXY_ONLY_READS"
    TLS_HANDSHAKE = "TLS_HANDSHAKE"
    INTERNAL = "INTERNAL"


class KvtierError(Exception):
    """A call that was refused or failed, with everything that is known of why.

    Attributes:
        code: The gRPC status code.
        reason: The `Reason`, or an empty string when the other side gave none.
        message: What was wrong with which value, and what to do; at most 1,024 characters.
        retry_after: Seconds after which trying again may help, or None.
        metadata: Further facts by name, such as the fields that differ.
    """

    def __init__(
        self,
        code: grpc.StatusCode,
        reason: str,
        message: str,
        *,
        retry_after: float | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message[:_MAX_MESSAGE]
        self.retry_after = retry_after
        self.metadata = dict(metadata or {})

    def __str__(self) -> str:
        return f"{self.message} ({self.reason or self.code.name})"


def invalid(message: str, reason: Reason = Reason.BAD_REQUEST) -> KvtierError:
    """Return an INVALID_ARGUMENT error."""
    return KvtierError(grpc.StatusCode.INVALID_ARGUMENT, reason, message)


def not_found(message: str, reason: Reason) -> KvtierError:
    """Return a NOT_FOUND error."""
    return KvtierError(grpc.StatusCode.NOT_FOUND, reason, message)


def failed_precondition(
    message: str, reason: Reason, metadata: Mapping[str, str] | None = None
) -> KvtierError:
    """Return a FAILED_PRECONDITION error."""
    return KvtierError(grpc.StatusCode.FAILED_PRECONDITION, reason, message, metadata=metadata)


def unauthenticated(message: str, reason: Reason) -> KvtierError:
    """Return an UNAUTHENTICATED error."""
    return KvtierError(grpc.StatusCode.UNAUTHENTICATED, reason, message)


def denied(message: str, reason: Reason) -> KvtierError:
    """Return a PERMISSION_DENIED error."""
    return KvtierError(grpc.StatusCode.PERMISSION_DENIED, reason, message)


def exhausted(
    message: str,
    reason: Reason,
    *,
    retry_after: float | None = None,
    metadata: Mapping[str, str] | None = None,
) -> KvtierError:
    """Return a RESOURCE_EXHAUSTED error that says when to try again, where that may help."""
    return KvtierError(
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        reason,
        message,
        retry_after=retry_after,
        metadata=metadata,
    )


def over_limit(
    limit: str, message: str, reason: Reason, *, retry_after: float | None = None
) -> KvtierError:
    """Return a RESOURCE_EXHAUSTED error whose metadata names the setting that is the limit."""
    return exhausted(message, reason, retry_after=retry_after, metadata={LIMIT: limit})


def aborted(message: str, reason: Reason = Reason.LEASE_ENDED) -> KvtierError:
    """Return an ABORTED error."""
    return KvtierError(grpc.StatusCode.ABORTED, reason, message)


def unavailable(message: str, reason: Reason, retry_after: float | None = None) -> KvtierError:
    """Return an UNAVAILABLE error."""
    return KvtierError(grpc.StatusCode.UNAVAILABLE, reason, message, retry_after=retry_after)


def quote(value: object, limit: int = 64) -> str:
    """Return a short printable form of a value that a peer sent."""
    if isinstance(value, bytes):
        text, whole = value[: limit // 2 + 1].hex(), f"{len(value)} bytes"
    elif isinstance(value, str):
        text, whole = repr(value[: limit + 1]), f"{len(value)} characters"
    else:
        text = repr(value)
        whole = f"{len(text)} characters"
    return text if len(text) <= limit else f"{text[:limit]}… ({whole})"


def encode_details(error: KvtierError) -> bytes:
    """Return the serialized `google.rpc.Status` of an error, for the trailer.

    Metadata that would make the trailer too large for a peer to accept is cut or left out.
    """
    status = status_pb2.Status(code=error.code.value[0], message=error.message)
    metadata = dict(_fitting(error.metadata))
    status.details.add().Pack(
        error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=metadata)
    )
    if error.retry_after is not None:
        delay = Duration()
        delay.FromMilliseconds(int(error.retry_after * 1000))
        status.details.add().Pack(error_details_pb2.RetryInfo(retry_delay=delay))
    serialized: bytes = status.SerializeToString()
    return serialized


def decode_details(
    code: grpc.StatusCode, message: str, trailers: Iterable[tuple[str, str | bytes]]
) -> KvtierError:
    """Return the error that a call ended with, from its code, message and trailing metadata.

    Details that are malformed, or of another domain, are passed over: the code and the message
    always come through.
    """
    error = KvtierError(code, "", message)
    for key, value in trailers:
        if key == DETAILS_TRAILER and isinstance(value, bytes):
            with contextlib.suppress(DecodeError):
                _read_details(error, value)
    return error


def decode_status(serialized: bytes) -> KvtierError:
    """Return the error of a serialized `google.rpc.Status`; UNKNOWN when the bytes are none."""
    try:
        status = status_pb2.Status.FromString(serialized)
    except DecodeError:
        return KvtierError(grpc.StatusCode.UNKNOWN, "", "the error that was told cannot be read")
    code = _CODES.get(status.code, grpc.StatusCode.UNKNOWN)
    return decode_details(code, status.message, [(DETAILS_TRAILER, serialized)])


def _read_details(error: KvtierError, serialized: bytes) -> None:
    info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    for detail in status_pb2.Status.FromString(serialized).details:
        if detail.Unpack(info) and info.domain == DOMAIN:
            error.reason, error.metadata = info.reason, dict(info.metadata)
        elif detail.Unpack(retry):
            seconds = retry.retry_delay.ToMilliseconds() / 1000
            error.retry_after = min(max(seconds, 0.0), _MAX_RETRY_AFTER)


def _fitting(metadata: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    room = _MAX_METADATA
    for key, value in metadata.items():
        short = value if len(value) <= _MAX_VALUE else f"{value[:_MAX_VALUE]}…"
        room -= len(key.encode()) + len(short.encode())
        if room < 0:
            return
        yield key, short
