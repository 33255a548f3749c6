"""What calls of this package raise, by the gRPC code of the answer.

::

    KvtierError                  any other code, such as INTERNAL
    ├── InvalidArgumentError     INVALID_ARGUMENT: malformed or out of limits
    ├── NotFoundError            NOT_FOUND: unknown namespace, tier, lease or block
    ├── FailedPreconditionError  FAILED_PRECONDITION: not in the state that the call needs
    ├── ExhaustedError           RESOURCE_EXHAUSTED: no room or a limit; `retry_after` says when
    ├── AbortedError             ABORTED: the lease expired, ended, or is of another generation
    ├── UnavailableError         UNAVAILABLE: out of reach, draining, or finding out what it holds
    ├── DeadlineError            DEADLINE_EXCEEDED: no answer in time; what became of it is unknown
    ├── UnimplementedError       UNIMPLEMENTED: the other side does not serve this call
    └── DeniedError
        ├── UnauthenticatedError   UNAUTHENTICATED: no certificate or token that is accepted
        └── PermissionDeniedError  PERMISSION_DENIED: known, but not allowed to do this

Every one carries `code`, `reason`, `message`, `retry_after` and `metadata`; the endpoint that was
called is `metadata["endpoint"]`. An UnavailableError with the reason TLS_HANDSHAKE says that the
two sides could not agree on TLS; gRPC's own words are `metadata["details"]`.
"""

import grpc

from kvtier.wire.credentials import Credentials
from kvtier.wire.errors import KvtierError, Reason, decode_details
from kvtier.wire.handshakes import why_no_plaintext, why_no_tls

__all__ = [
    "AbortedError",
    "DeadlineError",
    "DeniedError",
    "ExhaustedError",
    "FailedPreconditionError",
    "InvalidArgumentError",
    "KvtierError",
    "NotFoundError",
    "PermissionDeniedError",
    "Reason",
    "UnauthenticatedError",
    "UnavailableError",
    "UnimplementedError",
    "client_closed",
    "from_told",
    "is_failed_write",
    "told_by",
    "typed",
]


class InvalidArgumentError(KvtierError):
    """The request is malformed or out of limits, found here or by the node."""


class NotFoundError(KvtierError):
    """The node does not know the namespace, tier, lease or block."""


class FailedPreconditionError(KvtierError):
    """The node is not in the state that the call needs."""


class ExhaustedError(KvtierError):
    """There is no room that may be evicted, or a limit is reached."""


class AbortedError(KvtierError):
    """The lease expired, ended, or is of another generation."""


class UnavailableError(KvtierError):
    """The node is out of reach or draining, or a tier or a peer of it is not ready."""


class DeadlineError(KvtierError):
    """The node did not answer in time; whether it did the work is unknown."""


class UnimplementedError(KvtierError):
    """The other side does not serve this call."""


class DeniedError(KvtierError):
    """The caller has no identity that the node accepts, or may not do this."""


class UnauthenticatedError(DeniedError):
    """The caller showed no certificate or token that the node accepts."""


class PermissionDeniedError(DeniedError):
    """The node knows the caller, who may not do this."""


_BY_CODE: dict[grpc.StatusCode, type[KvtierError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidArgumentError,
    grpc.StatusCode.NOT_FOUND: NotFoundError,
    grpc.StatusCode.FAILED_PRECONDITION: FailedPreconditionError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ExhaustedError,
    grpc.StatusCode.ABORTED: AbortedError,
    grpc.StatusCode.UNAVAILABLE: UnavailableError,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineError,
    grpc.StatusCode.UNIMPLEMENTED: UnimplementedError,
    grpc.StatusCode.UNAUTHENTICATED: UnauthenticatedError,
    grpc.StatusCode.PERMISSION_DENIED: PermissionDeniedError,
}


_IS_IT_THERE = "is a node serving there?"


def typed(
    code: grpc.StatusCode,
    reason: str,
    message: str,
    *,
    retry_after: float | None = None,
    metadata: dict[str, str] | None = None,
) -> KvtierError:
    """Return the exception of the tree that stands for a code."""
    kind = _BY_CODE.get(code, KvtierError)
    return kind(code, reason, message, retry_after=retry_after, metadata=metadata)


def client_closed(endpoint: str) -> KvtierError:
    """Return the exception that says that a client was used after it was closed."""
    return typed(
        grpc.StatusCode.FAILED_PRECONDITION,
        "",
        f"the client of {endpoint} is closed; make a new one",
    )


def told_by(error: grpc.aio.AioRpcError) -> KvtierError:
    """Return the error that a node told, or gRPC in its place."""
    if is_failed_write(error):
        # Nobody refused anything, as when the other side breaks a call off.
        return KvtierError(grpc.StatusCode.CANCELLED, "", "")
    return decode_details(error.code(), error.details() or "", error.trailing_metadata())


def is_failed_write(error: grpc.aio.AioRpcError) -> bool:
    """Return whether an error is only gRPC's word for a message that could not be sent."""
    failed = error.code() is grpc.StatusCode.INTERNAL
    return failed and error.details() == "Internal error from Core"


def from_told(
    told: KvtierError, endpoint: str, timeout: float, credentials: Credentials | None = None
) -> KvtierError:
    """Return the exception of the tree for an error as it travelled.

    Args:
        told: The error.
        endpoint: The address that was called.
        timeout: The seconds that the call had.
        credentials: What the caller showed.
    """
    code, reason, message = told.code, told.reason, told.message
    metadata = {**told.metadata, "endpoint": endpoint}
    if not reason and code is grpc.StatusCode.CANCELLED:
        # Nobody here did. A server that is closing tells no more than this, nor a connection that
        # broke.
        code = grpc.StatusCode.UNAVAILABLE
        message = f"{endpoint} broke the call off; what became of it is unknown"
    elif not reason and code is grpc.StatusCode.UNAVAILABLE:
        if credentials is not None and credentials.tls and (why := why_no_tls(message)):
            metadata["details"] = message
            reason, message = Reason.TLS_HANDSHAKE, f"{endpoint} {why}"
        else:
            why = why_no_plaintext(message) if credentials is None else ""
            message = f"{endpoint} cannot be reached; {why or _IS_IT_THERE} ({message})"
    elif not reason and code is grpc.StatusCode.DEADLINE_EXCEEDED:
        message = f"{endpoint} did not answer within {timeout:g} s"
    elif not reason and code is grpc.StatusCode.UNIMPLEMENTED:
        message = f"{endpoint} does not serve this call; is it a kvtier node? ({message})"
    return typed(
        code,
        reason,
        message + _about_identity(told, credentials),
        retry_after=told.retry_after,
        metadata=metadata,
    )


def _about_identity(told: KvtierError, credentials: Credentials | None) -> str:
    """Return what to do about who the caller is, if that may be why a call failed."""
    unknown = told.code is grpc.StatusCode.UNAUTHENTICATED
    out_of_reach = told.code is grpc.StatusCode.UNAVAILABLE and not told.reason
    if credentials is None or not (unknown or out_of_reach) or not credentials.problem:
        return ""
    return f"; {credentials.problem}"
