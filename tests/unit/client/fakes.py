"""A node that answers as a test tells it to, over real gRPC."""

from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from typing import Any, Self

import grpc
import grpc.aio
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from kvtier.v1 import (
    event_service_pb2,
    node_service_pb2,
    tier_service_pb2,
    transfer_service_pb2,
)
from kvtier.wire.errors import DETAILS_TRAILER, KvtierError, encode_details

SERVICES = (
    event_service_pb2.DESCRIPTOR.services_by_name["EventService"],
    tier_service_pb2.DESCRIPTOR.services_by_name["TierService"],
    transfer_service_pb2.DESCRIPTOR.services_by_name["TransferService"],
    node_service_pb2.DESCRIPTOR.services_by_name["NodeService"],
)

# Answers one call: a unary one from its request, a stream one from its request or its requests.
Handler = Callable[[Any], Any]


class FakeNode:
    """A gRPC server whose methods are scripted by name; one may be missing, as in an older node.

    A method with several handlers uses them one after the other and then stays with the last. One
    without a handler answers with an empty message.

    Attributes:
        endpoint: Where it serves.
        calls: The method and request of every call, in order; of a stream of requests, the method.
        peers: The connection of every call.
        deadlines: Seconds that every call had left, None for one without a deadline.
    """

    def __init__(self, port: int = 0, *, without: str = "") -> None:
        self.endpoint = ""
        self.calls: list[tuple[str, Any]] = []
        self.peers: list[tuple[str, str]] = []
        self.deadlines: dict[str, float | None] = {}
        self._port = port
        self._without = without
        self._handlers: dict[str, list[Handler]] = defaultdict(list)
        self._server: grpc.aio.Server | None = None

    def on(self, method: str, *handlers: Handler) -> None:
        """Script a method."""
        self._handlers[method] = list(handlers)

    def names(self) -> list[str]:
        """Return the methods called, in order."""
        return [name for name, _ in self.calls]

    def requests(self, method: str) -> list[Any]:
        """Return the requests of a method."""
        return [request for name, request in self.calls if name == method]

    async def __aenter__(self) -> Self:
        self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        for service in SERVICES:
            handlers = {
                method.name: self._handler(method)
                for method in service.methods
                if method.name != self._without
            }
            generic = grpc.method_handlers_generic_handler(service.full_name, handlers)
            self._server.add_generic_rpc_handlers((generic,))
        self._port = self._server.add_insecure_port(f"127.0.0.1:{self._port}")
        self.endpoint = f"127.0.0.1:{self._port}"
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(None)
            self._server = None

    def _handler(self, method: MethodDescriptor) -> Any:
        kwargs: dict[str, Any] = {
            "request_deserializer": GetMessageClass(method.input_type).FromString,
            "response_serializer": GetMessageClass(method.output_type).SerializeToString,
        }
        if method.client_streaming:
            return grpc.stream_stream_rpc_method_handler(self._stream(method), **kwargs)
        if method.server_streaming:
            return grpc.unary_stream_rpc_method_handler(self._stream(method), **kwargs)
        return grpc.unary_unary_rpc_method_handler(self._unary(method), **kwargs)

    def _note(self, method: MethodDescriptor, request: Any, context: Any) -> Handler | None:
        self.calls.append((method.name, request))
        self.peers.append((method.name, context.peer()))
        self.deadlines[method.name] = context.time_remaining()
        handlers = self._handlers[method.name]
        if not handlers:
            return None
        return handlers.pop(0) if len(handlers) > 1 else handlers[0]

    def _unary(self, method: MethodDescriptor) -> Any:
        async def answer(request: Any, context: Any) -> Any:
            handler = self._note(method, request, context)
            try:
                found = handler(request) if handler else GetMessageClass(method.output_type)()
                return await found if hasattr(found, "__await__") else found
            except KvtierError as error:
                await _abort(context, error)

        return answer

    def _stream(self, method: MethodDescriptor) -> Any:
        async def answer(request: Any, context: Any) -> None:
            handler = self._note(method, request, context)
            try:
                if handler is not None:
                    async for message in handler(request):
                        await context.write(message)
            except KvtierError as error:
                await _abort(context, error)

        return answer


async def _abort(context: Any, error: KvtierError) -> None:
    trailer = (DETAILS_TRAILER, encode_details(error))
    await context.abort(error.code, error.message, trailing_metadata=(trailer,))


def fail(error: KvtierError) -> Handler:
    """Return a handler that refuses a unary call."""

    def handler(request: Any) -> Any:
        raise error

    return handler


def play(*messages: Any, then: KvtierError | None = None) -> Handler:
    """Return a handler that streams messages and then ends, or fails."""

    async def handler(request: Any) -> AsyncIterator[Any]:
        for message in messages:
            yield message
        if then is not None:
            raise then

    return handler
