"""A server in front of a true node that changes what the node says."""

from collections.abc import AsyncIterator, Callable
from typing import Any, Self

import grpc
import grpc.aio

from kvtier.v1.event_service_pb2 import WatchEventsResponse
from kvtier.v1.listing_pb2 import (
    ListBlocksResponse,
)

_WATCH = "/kvtier.v1.EventService/WatchEvents"
_LIST = "/kvtier.v1.TierService/ListBlocks"


def _as_it_is(_message: Any) -> None:
    """Change nothing."""


class LyingNode(grpc.GenericRpcHandler):
    """Passes every call on to a true node, and lets a test change its events and listings.

    Attributes:
        endpoint: Where it serves.
    """

    def __init__(
        self,
        truth: str,
        *,
        events: Callable[[WatchEventsResponse], None] = _as_it_is,
        listing: Callable[[ListBlocksResponse], None] = _as_it_is,
    ) -> None:
        self.endpoint = ""
        self._truth = truth
        self._events = events
        self._listing = listing

    async def __aenter__(self) -> Self:
        self._channel = grpc.aio.insecure_channel(self._truth)
        self._server = grpc.aio.server()
        self._server.add_generic_rpc_handlers((self,))
        self.endpoint = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop(0)
        await self._channel.close()

    def service(self, handler_call_details: Any) -> Any:
        """Return what answers a call, all of them by bytes."""
        method = handler_call_details.method
        if method == _WATCH:
            return grpc.unary_stream_rpc_method_handler(self._watch)

        async def answer(request: bytes, context: Any) -> bytes:
            del context
            call: Any = self._channel.unary_unary(method)
            told: bytes = await call(request)
            if method != _LIST:
                return told
            page = ListBlocksResponse.FromString(told)
            self._listing(page)
            return page.SerializeToString()

        return grpc.unary_unary_rpc_method_handler(answer)

    async def _watch(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        del context
        call: Any = self._channel.unary_stream(_WATCH)
        async for told in call(request):
            message = WatchEventsResponse.FromString(told)
            self._events(message)
            yield message.SerializeToString()
