"""One WatchEvents call: its messages, its end, and its silence."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Self

import grpc
import grpc.aio

from kvtier.client.arguments import build
from kvtier.client.errors import KvtierError, typed
from kvtier.v1.block_pb2 import Medium
from kvtier.v1.event_service_pb2 import (
    EventView,
    NodePosition,
    SourceState,
    State,
    WatchEventsRequest,
    WatchEventsResponse,
)

MISSED_HEARTBEATS = 3


def watch_request(
    *,
    positions: Sequence[NodePosition],
    tiers: Sequence[str],
    media: Sequence[Medium.ValueType],
    namespaces: Sequence[bytes],
    view: EventView.ValueType,
) -> WatchEventsRequest:
    """Return the request to follow a node.

    Raises:
        InvalidArgumentError: When an argument cannot be sent; it is named.
    """
    return build(
        WatchEventsRequest,
        positions=positions,
        tiers=tiers,
        media=media,
        namespaces=namespaces,
        view=view,
    )


class EventStream:
    """The messages of one WatchEvents call, as they come.

    Iteration ends with a `KvtierError` that says why the stream broke; whatever came before is
    delivered first. Close it when it is not read to its end.

    Args:
        call: The call.
        failure: Makes the error out of gRPC's.
        leave: Makes the next calls over another connection.
    """

    def __init__(
        self,
        call: grpc.aio.UnaryStreamCall[WatchEventsRequest, WatchEventsResponse],
        failure: Callable[[grpc.aio.AioRpcError], KvtierError],
        leave: Callable[[], None],
    ) -> None:
        self._call = call
        self._leave = leave
        # Reading by `call.read()` would lose messages that lie unread when the status comes.
        self._messages = aiter(call)
        self._failure = failure

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WatchEventsResponse:
        try:
            return await anext(self._messages)
        except grpc.aio.AioRpcError as error:
            raise self._failure(error) from None

    def cancel(self) -> None:
        """End the call; a reader that waits gets `asyncio.CancelledError`."""
        self._call.cancel()

    def abandon(self) -> None:
        """End the call, and leave its connection, which brings nothing any more."""
        self._leave()
        self.cancel()

    async def aclose(self) -> None:
        """End the call."""
        self.cancel()


class SilentError(Exception):
    """Nothing came for too long, while somebody waited for it.

    Attributes:
        heard: Something had come before.
    """

    def __init__(self, seconds: float, *, heard: bool) -> None:
        super().__init__(f"no message for {seconds:g} s")
        self.heard = heard


class Listener:
    """An event stream that is given up when it misses three heartbeats.

    A heartbeat is missed when its time passes while a reader waits, and nothing comes. A reader
    that is busy elsewhere proves nothing, and neither does an event loop that stood still: it
    misses one at most.

    Args:
        stream: The stream.
        interval: Seconds between heartbeats.
        sleep: Waits for seconds.
    """

    def __init__(
        self,
        stream: EventStream,
        interval: float,
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._stream = stream
        self._interval = interval
        self._sleep = sleep
        self._waiting = False
        self._heard = 0
        self._silent = False
        self._guard = asyncio.ensure_future(self._watch_silence())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WatchEventsResponse:
        self._waiting = True
        try:
            message = await anext(self._stream)
        except asyncio.CancelledError:
            if _cancelled_from_outside():
                raise
            if not self._silent:
                raise typed(grpc.StatusCode.UNAVAILABLE, "", "the connection was closed") from None
            seconds = MISSED_HEARTBEATS * self._interval
            raise SilentError(seconds, heard=self._heard > 0) from None
        finally:
            self._waiting = False
        self._heard += 1
        return message

    def close(self) -> None:
        """End the call."""
        self._guard.cancel()
        self._stream.cancel()

    async def _watch_silence(self) -> None:
        missed = 0
        while missed < MISSED_HEARTBEATS:
            heard = self._heard
            await self._sleep(self._interval)
            missed = missed + 1 if self._waiting and self._heard == heard else 0
        self._silent = True
        self._stream.abandon()


def source_state(
    node_id: str, place: tuple[int, int], state: SourceState.ValueType, reason: str
) -> WatchEventsResponse:
    """Return a message of the client's own that tells the state of a source.

    Args:
        node_id: The node; empty when it is not known yet.
        place: The epoch and sequence that the source had come to.
        state: The state.
        reason: Why, in a few words.
    """
    epoch, through = place
    return WatchEventsResponse(
        node_id=node_id,
        epoch=epoch,
        after=through,
        through=through,
        state=State(source=state, reason=reason),
    )


def _cancelled_from_outside() -> bool:
    """Tell whether somebody cancelled the task, rather than the call that it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
