"""How a call ended, for what is around it."""

import asyncio

import grpc

from kvtier.server.services.calls import Call
from kvtier.wire.errors import KvtierError


def refusal(call: Call, failure: BaseException | None) -> KvtierError | None:
    """Return why a call was refused or ended; None when it was not, or failed in another way."""
    if isinstance(failure, asyncio.CancelledError):
        return call.ended
    return failure if isinstance(failure, KvtierError) else None


def status_code(call: Call, failure: BaseException | None) -> grpc.StatusCode:
    """Return the code of the status that a call ends with, given what it is left with."""
    if failure is None:
        return grpc.StatusCode.OK
    refused = refusal(call, failure)
    if refused is not None:
        return refused.code
    if isinstance(failure, asyncio.CancelledError | grpc.aio.InternalError):
        # gRPC cancels a call whose time is over just as one that its caller left.
        left = call.context.time_remaining()
        late = left is not None and left <= 0
        return grpc.StatusCode.DEADLINE_EXCEEDED if late else grpc.StatusCode.CANCELLED
    return grpc.StatusCode.INTERNAL
