"""Serving a service: parsing, errors and streams, in one place for all calls.

gRPC itself answers UNKNOWN to a request that it cannot parse and to any exception, and leaves a
call without a request open for ever. So every handler is registered as one of a stream of requests,
and without gRPC's serializers: this module reads, parses, and turns every outcome into a status.

Full collections of garbage are rare, so no call may leave circles with its messages in them: it is
read by the context, since gRPC's iterator is part of a circle, and ended by an error that leads to
nothing of it.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from inspect import isawaitable, signature
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

import grpc
import structlog
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from kvtier.server.services.calls import Call, Context, Guard
from kvtier.wire.errors import DETAILS_TRAILER, KvtierError, Reason, encode_details, invalid

_log = structlog.get_logger(__name__)

Send = Callable[[bytes | Message], Awaitable[None]]
Parse = Callable[[bytes], Any]
T = TypeVar("T")


class Registry(Protocol):
    """Where handlers of calls are registered: a server that was not started."""

    def add_generic_rpc_handlers(self, handlers: "Sequence[grpc.GenericRpcHandler]", /) -> None:
        """Serve what these handle."""
        ...


class Sender:
    """Sends the responses of one streaming call.

    Args:
        context: gRPC's side of the call.
    """

    def __init__(self, context: Context) -> None:
        self._context = context

    async def __call__(self, message: bytes | Message) -> None:
        """Send one response; waits as long as the peer does not read."""
        await self._context.write(encode(message))

    def when_over(self, act: Callable[[], None]) -> None:
        """Call back when nothing of the call is left: its status was taken, or the peer is gone."""
        # The stubs want a class of theirs that does not exist.
        self._context.add_done_callback(lambda _: act())  # type: ignore[arg-type]


def add_service(
    server: Registry,
    descriptor: ServiceDescriptor,
    servicer: object,
    before: Callable[[], None],
    *,
    parsers: Mapping[str, Parse] = MappingProxyType({}),
    guards: Sequence[Guard] = (),
    only: Collection[str] = (),
) -> None:
    """Register every method of a service.

    Args:
        server: The server.
        descriptor: The service.
        servicer: Has a method in snake_case for each RPC. A unary one takes the request and returns
            the response, as a message or encoded, or a coroutine of it; one that also takes
            `seconds_left` gets the time that the caller waits, None without a deadline. A streaming
            one is a
            coroutine that takes the request, or an iterator of requests, and a `Sender`.
        before: Called before each call acts.
        parsers: What makes a request of bytes, by the full name of the message, where that is not
            the generated class; it raises DecodeError.
        guards: What is around each call, the outermost first.
        only: The methods to register; none stands for all.
    """
    handlers = {
        method.name: _handler(
            _parser(method, parsers),
            method,
            getattr(servicer, snake_case(method.name)),
            before,
            guards,
        )
        for method in descriptor.methods
        if not only or method.name in only
    }
    generic = grpc.method_handlers_generic_handler(descriptor.full_name, handlers)
    server.add_generic_rpc_handlers((generic,))


def snake_case(name: str) -> str:
    """Return the Python name of an RPC."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def encode(message: bytes | Message) -> bytes:
    """Return a message as it travels."""
    return message if isinstance(message, bytes) else message.SerializeToString()


def _handler(
    parse: Parse,
    method: MethodDescriptor,
    act: Callable[..., Any],
    before: Callable[[], None],
    guards: Sequence[Guard],
) -> "grpc.RpcMethodHandler[Any, Any]":
    if method.client_streaming and method.server_streaming:
        handle = partial(_answer, _bidirectional(parse, act, before), method, guards)
        return grpc.stream_stream_rpc_method_handler(handle)
    if method.server_streaming:
        handle = partial(_answer, _streaming(parse, act, before), method, guards)
        return grpc.stream_stream_rpc_method_handler(handle)
    return grpc.stream_unary_rpc_method_handler(
        partial(_answer, _unary(parse, act, before), method, guards)
    )


def _parser(method: MethodDescriptor, parsers: Mapping[str, Parse]) -> Parse:
    name = method.input_type.full_name
    of_bytes = parsers.get(name) or GetMessageClass(method.input_type).FromString

    def parse(data: bytes) -> Any:
        try:
            return of_bytes(data)
        except DecodeError:
            raise invalid(f"the request's {len(data)} bytes are no {name}") from None

    return parse


def _unary(parse: Parse, act: Callable[..., Any], before: Callable[[], None]) -> Any:
    takes_time = "seconds_left" in signature(act).parameters

    async def handle(call: Call) -> bytes:
        request = parse(await _only(call.context))
        call.allow(request)
        before()
        left = call.context.time_remaining
        response = act(request, left()) if takes_time else act(request)
        return encode(await response if isawaitable(response) else response)

    return handle


def _streaming(parse: Parse, act: Callable[..., Any], before: Callable[[], None]) -> Any:
    async def handle(call: Call) -> None:
        request = parse(await _only(call.context))
        call.allow(request)
        before()
        await call.context.send_initial_metadata(())
        await act(request, Sender(call.context))

    return handle


def _bidirectional(parse: Parse, act: Callable[..., Any], before: Callable[[], None]) -> Any:
    async def requests(call: Call) -> AsyncIterator[Any]:
        while (data := await call.context.read()) is not grpc.aio.EOF:
            request = parse(data)
            call.allow(request)
            yield request

    async def handle(call: Call) -> None:
        before()
        await act(requests(call), Sender(call.context))

    return handle


async def _answer(
    handle: Callable[[Call], Awaitable[T]],
    method: MethodDescriptor,
    guards: Sequence[Guard],
    _incoming: object,
    context: Context,
) -> T:
    """Handle a call; every failure becomes a status."""
    call, status = Call(method, context), None
    try:
        with ExitStack() as around:
            for guard in guards:
                around.enter_context(guard(call))
            return await handle(call)
    except grpc.aio.InternalError:
        # How gRPC tells that the connection broke while something was sent.
        pass
    except asyncio.CancelledError:
        if call.ended is None:
            raise
        status = _status(call.ended)
    except Exception as error:  # noqa: BLE001 - as the docstring says
        # Not the error, which leads to all that the call had: the peer may take its time.
        status = _status(error)
    if status is None:
        raise asyncio.CancelledError
    try:
        code, message, details = status
        await context.abort(code, message, (*(context.trailing_metadata() or ()), *details))
    finally:
        # The context keeps what abort raises, and that keeps this frame.
        del context, _incoming, call


async def _only(context: Context) -> Any:
    """Return the request of a call that has one."""
    data = await context.read()
    if data is grpc.aio.EOF:
        raise invalid("the call brought no request; send one message")
    return data


def refusal_of(error: Exception) -> KvtierError:
    """Return what the caller is told of a failure; one of the server's own is logged."""
    if isinstance(error, KvtierError):
        return error
    _log.error("a call failed inside the server", exc_info=error)
    return KvtierError(
        grpc.StatusCode.INTERNAL,
        Reason.INTERNAL,
        "the server failed; its log has the details",
    )


def _status(failure: Exception) -> tuple[grpc.StatusCode, str, tuple[tuple[str, bytes]]]:
    """Return the status of a failed call: code, message and trailers."""
    error = refusal_of(failure)
    return error.code, error.message, ((DETAILS_TRAILER, encode_details(error)),)
