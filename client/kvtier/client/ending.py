"""What a call with a stream of requests really ended with."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import grpc
import grpc.aio

from kvtier.client.errors import is_failed_write

Request = TypeVar("Request")
Response = TypeVar("Response")
T = TypeVar("T")

_PATIENCE = 1.0


async def answers(call: grpc.aio.StreamStreamCall[Request, Response]) -> AsyncIterator[Response]:
    """Yield what the other side sends, then raise the status with which it ended the call.

    The call has ended when this has. gRPC ends one whose reader is cancelled by itself, but not
    where that meets the end of what comes before the first answer: such a call went on.

    When a node ends a call early, a write under way fails, and gRPC puts INTERNAL in the place of
    the status that the node gave (grpc/grpc#36066). The first status is the true one.

    Raises:
        AioRpcError: When the status is not OK.
    """
    status = _FirstStatus(call)
    try:
        async for answer in call:
            yield answer
    except grpc.aio.AioRpcError as error:
        told = await status.behind(error)
        if told.code() is not grpc.StatusCode.OK:
            raise told from None
    finally:
        call.cancel()


class _FirstStatus:
    """Remembers the first status of a call that is not gRPC's own for a failed write."""

    def __init__(self, call: grpc.aio.Call) -> None:
        self._told: grpc.aio.AioRpcError | None = None
        self._arrived = asyncio.Event()
        call.add_done_callback(self._note)

    async def behind(self, error: grpc.aio.AioRpcError) -> grpc.aio.AioRpcError:
        """Return the status that the other side gave, if it comes to be known."""
        if not is_failed_write(error):
            return error
        with suppress(TimeoutError):
            await asyncio.wait_for(self._arrived.wait(), _PATIENCE)
        return self._told or error

    def _note(self, call: grpc.aio.Call) -> None:
        status = grpc.aio.AioRpcError(
            _known(call.code()),
            _known(call.initial_metadata()),
            _known(call.trailing_metadata()),
            _known(call.details()),
        )
        if self._told is None and not is_failed_write(status):
            self._told = status
            self._arrived.set()


def _known(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return at once what a call that is done has to tell; a task would see it overwritten."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    raise AssertionError("the call is done")
