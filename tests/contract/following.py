"""Followers over real gRPC: one call with gRPC's own defaults, read and folded as it comes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc.aio

from kvtier.client import NodeClient
from kvtier.v1.event_service_pb2 import EventBatch, WatchEventsRequest, WatchEventsResponse
from kvtier.v1.event_service_pb2_grpc import EventServiceStub

from .folding import Fold
from .wire import refusal

if TYPE_CHECKING:
    from kvtier.wire.errors import KvtierError

PATIENCE = 20.0


class Following:
    """One follower of one node.

    Attributes:
        messages: The messages, as they came.
        fold: The view folded from them.
        error: What the stream ended with.
    """

    def __init__(self, call: Any, fold: Fold) -> None:
        self.messages: list[WatchEventsResponse] = []
        self.fold = fold
        self.error: KvtierError | None = None
        self._call = call
        self._moved = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    @property
    def kinds(self) -> list[str]:
        return [message.WhichOneof("kind") or "" for message in self.messages]

    @property
    def batches(self) -> list[EventBatch]:
        """The live batches, in order."""
        return [batch for message in self.messages for batch in message.batches.batches]

    async def until(self, condition: Callable[[], object]) -> None:
        """Read on until something holds.

        Raises:
            TimeoutError: When it does not come to hold.
            KvtierError: When the stream ended before.
        """
        async with asyncio.timeout(PATIENCE):
            while not condition():
                if self._reading.done():
                    self._reading.result()
                    raise self.error or EOFError("the stream ended")
                self._moved.clear()
                await self._moved.wait()

    async def settle(self, client: NodeClient) -> None:
        """Read on until everything that happened so far is told."""
        head = (await client.get_node()).head.sequence
        await self.until(lambda: self.fold.synced and self.fold.through >= head)

    async def leave(self) -> None:
        """Cancel the call; raise what a message did wrong."""
        self._call.cancel()
        self._reading.cancel()
        for failure in await asyncio.gather(self._reading, return_exceptions=True):
            if isinstance(failure, Exception):
                raise failure

    async def _read(self) -> None:
        try:
            async for message in self._call:
                self.messages.append(message)
                self.fold.apply(message)
                self._moved.set()
        except grpc.aio.AioRpcError as error:
            self.error = refusal(error)
        finally:
            self._moved.set()


@asynccontextmanager
async def following(
    endpoint: str, *, fold: Fold | None = None, **request: Any
) -> AsyncIterator[Following]:
    """Follow a node; the view is complete, or the call is refused, when the body begins.

    Args:
        endpoint: The node's address.
        fold: The view to go on from; by default a new one, from a snapshot.
        request: Further fields of the request.
    """
    filtered = any(request.get(name) for name in ("tiers", "media", "namespaces"))
    view = fold or Fold(filtered=filtered)
    view.reopen()
    async with grpc.aio.insecure_channel(endpoint) as channel:
        stub: Any = EventServiceStub(channel)
        call = stub.WatchEvents(WatchEventsRequest(positions=view.positions(), **request))
        follower = Following(call, view)
        try:
            await follower.until(lambda: "synced" in follower.kinds or follower.error)
            yield follower
        finally:
            await follower.leave()
