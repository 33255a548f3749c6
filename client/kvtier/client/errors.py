"""What calls of this package raise, by the gRPC code of the answer.

::

    KvtierError                  any other code, such as INTERNAL
    ├── InvalidArgumentError     INVALID_ARGUMENT: malformed or out of limits
    ├── NotFoundError            NOT_FOUND: unknown namespace, tier, lease or block
    ├── FailedPreconditionError  FAILED_PRECONDITION: not in the state that the call needs
    ├── ExhaustedError           RESOURCE_EXHAUSTED: no room or a limit; `retry_after` says when
    ├── AbortedError             ABORTED: the lease expired, ended, or is of another generation
    ├── UnavailableError         UNAVAILABLE: out of reach, or draining
    ├── DeadlineError            DEADLINE_EXCEEDED: no answer in time; what became of it is unknown
    ├── UnimplementedError       UNIMPLEMENTED: the other side does not serve this call
    └── DeniedError              UNAUTHENTICATED or PERMISSION_DENIED

Every one carries `code`, `reason`, `message`, `retry_after` and `metadata`; the endpoint that was
called is `metadata["endpoint"]`.
"""

import grpc

from kvtier.wire.errors import KvtierError, Reason, decode_details

__all__ = [
    "AbortedError",
    "DeadlineError",
    "DeniedError",
    "ExhaustedError",
    "FailedPreconditionError",
    "InvalidArgumentError",
    "KvtierError",
    "NotFoundError",
    "Reason",
    "UnavailableError",
    "UnimplementedError",
    "client_closed",
    "from_rpc",
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
    """The node is out of reach or draining."""


class DeadlineError(KvtierError):
    """The node did not answer in time; whether it did the work is unknown."""


class UnimplementedError(KvtierError):
    """The other side does not serve this call."""


class DeniedError(KvtierError):
    """The caller has no identity that the node accepts, or may not do this."""


_BY_CODE: dict[grpc.StatusCode, type[KvtierError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidArgumentError,
    grpc.StatusCode.NOT_FOUND: NotFoundError,
    grpc.StatusCode.FAILED_PRECONDITION: FailedPreconditionError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ExhaustedError,
    grpc.StatusCode.ABORTED: AbortedError,
    grpc.StatusCode.UNAVAILABLE: UnavailableError,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineError,
    grpc.StatusCode.UNIMPLEMENTED: UnimplementedError,
    grpc.StatusCode.UNAUTHENTICATED: DeniedError,
    grpc.StatusCode.PERMISSION_DENIED: DeniedError,
}


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


def from_rpc(error: grpc.aio.AioRpcError, endpoint: str, timeout: float) -> KvtierError:
    """Return the exception that says why a call to a node failed.

    Args:
        error: What gRPC raised.
        endpoint: The address that was called.
        timeout: The seconds that the call had.
    """
    told = decode_details(error.code(), error.details() or "", error.trailing_metadata())
    return from_told(told, endpoint, timeout)


def from_told(told: KvtierError, endpoint: str, timeout: float) -> KvtierError:
    """Return the exception of the tree for an error as it travelled.

    Args:
        told: The error.
        endpoint: The address that was called.
        timeout: The seconds that the call had.
    """
    message = told.message
    if not told.reason and told.code is grpc.StatusCode.UNAVAILABLE:
        message = f"{endpoint} cannot be reached; is a node serving there? ({message})"
    elif not told.reason and told.code is grpc.StatusCode.DEADLINE_EXCEEDED:
        message = f"{endpoint} did not answer within {timeout:g} s"
    elif not told.reason and told.code is grpc.StatusCode.UNIMPLEMENTED:
        message = f"{endpoint} does not serve this call; is it a kvtier node? ({message})"
    return typed(
        told.code,
        told.reason,
        message,
        retry_after=told.retry_after,
        metadata={**told.metadata, "endpoint": endpoint},
    )
