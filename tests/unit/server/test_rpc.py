"""The wrapper around every call: parsing, statuses, and callers that leave."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest
from structlog.testing import capture_logs

from kvtier.server.services.rpc import Send, add_service, snake_case
from kvtier.v1 import event_service_pb2, tier_service_pb2, transfer_service_pb2
from kvtier.wire.errors import KvtierError, Reason, decode_details, exhausted, invalid
from tests.contract.support import namespace

SERVICES = {
    "TierService": tier_service_pb2.DESCRIPTOR,
    "EventService": event_service_pb2.DESCRIPTOR,
    "TransferService": transfer_service_pb2.DESCRIPTOR,
}
GARBAGE = b"\xff\xff\xff\xff"
SECRET = "password=hunter2"

Act = Callable[..., Any]


class Servicer:
    """Answers each call by what a test gave for its method."""

    def __init__(self, **acts: Act) -> None:
        self._acts = acts

    def __getattr__(self, method: str) -> Act:
        return self._acts.get(method, lambda *_: pytest.fail(f"{method} was called"))


class Peer:
    """A caller that sends bytes as they are."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel

    async def unary(self, method: str, request: bytes = b"") -> bytes:
        """Call a unary method of TierService; raise its error as the client would see it."""
        call: Any = self._channel.unary_unary(f"/kvtier.v1.TierService/{method}")
        answer: bytes = await told(call(request, timeout=10))
        return answer

    def watch(self, request: bytes = b"") -> Any:
        """Call WatchEvents."""
        call: Any = self._channel.unary_stream("/kvtier.v1.EventService/WatchEvents")
        return call(request)

    def write(self) -> Any:
        """Call WriteBlocks."""
        return self._channel.stream_stream("/kvtier.v1.TransferService/WriteBlocks")()


async def told(answer: Awaitable[Any]) -> Any:
    """Wait for an answer; turn the status of a failed call into the error that it carries."""
    try:
        return await answer
    except grpc.aio.AioRpcError as error:
        trailers = error.trailing_metadata() or ()
        raise decode_details(error.code(), error.details() or "", trailers) from None


@asynccontextmanager
async def serving(before: Callable[[], None] = lambda: None, **acts: Act) -> AsyncIterator[Peer]:
    """Serve the three services with these methods."""
    server = grpc.aio.server()
    for name, descriptor in SERVICES.items():
        add_service(server, descriptor.services_by_name[name], Servicer(**acts), before)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield Peer(channel)
    finally:
        await server.stop(0)


@pytest.mark.parametrize(
    ("rpc", "method"), [("GetNode", "get_node"), ("ListBlocks", "list_blocks"), ("A", "a")]
)
def test_methods_are_found_by_their_python_names(rpc: str, method: str) -> None:
    """An RPC's method is its name in snake_case."""
    assert snake_case(rpc) == method


async def test_an_answer_may_be_a_message_or_bytes_at_once_or_later() -> None:
    """All ways of answering look alike to the caller."""
    message = tier_service_pb2.RegisterNamespaceResponse(fingerprint=b"f" * 32)
    encoded = message.SerializeToString()

    async def later(_request: object, seconds_left: float | None) -> object:
        assert seconds_left is not None
        await asyncio.sleep(0)
        return message

    async with serving(
        get_node=lambda _: message, list_tiers=lambda _: encoded, list_blocks=later
    ) as peer:
        answers = [await peer.unary(name) for name in ("GetNode", "ListTiers", "ListBlocks")]

    assert answers == [encoded] * 3


async def test_a_method_gets_the_request_that_was_sent() -> None:
    """Requests are parsed before they reach a method."""
    seen = []

    def register(request: object) -> bytes:
        seen.append(request)
        return b""

    request = tier_service_pb2.RegisterNamespaceRequest(namespace=namespace())
    async with serving(register_namespace=register) as peer:
        await peer.unary("RegisterNamespace", request.SerializeToString())

    assert seen == [request]


async def test_unparsable_bytes_are_the_caller_s_fault() -> None:
    """Every kind of call answers INVALID_ARGUMENT, and no method is run."""
    async with serving(write_blocks=take_one) as peer:
        with pytest.raises(KvtierError) as unary:
            await peer.unary("GetNode", GARBAGE)
        with pytest.raises(KvtierError) as watching:
            await told(peer.watch(GARBAGE).read())
        call = peer.write()
        await call.write(GARBAGE)
        with pytest.raises(KvtierError) as writing:
            await told(call.read())

    for error in (unary, watching, writing):
        assert error.value.code.name == "INVALID_ARGUMENT"
        assert error.value.reason == Reason.BAD_REQUEST
        assert "4 bytes are no kvtier.v1." in error.value.message


async def take_one(requests: AsyncIterator[object], send: Send) -> None:
    """Read one request."""
    await anext(requests, None)


async def test_a_refusal_comes_with_its_details() -> None:
    """Status, reason, message, delay and facts of an error reach the caller."""

    def refuse(_request: object) -> bytes:
        raise exhausted(
            "no room", Reason.TIER_FULL, retry_after=0.25, metadata={"pending_blocks": "3"}
        )

    async with serving(prepare_store=refuse) as peer:
        with pytest.raises(KvtierError) as error:
            await peer.unary("PrepareStore")

    told_error = error.value
    assert (told_error.code.name, told_error.reason) == ("RESOURCE_EXHAUSTED", Reason.TIER_FULL)
    assert (told_error.message, told_error.retry_after) == ("no room", 0.25)
    assert told_error.metadata == {"pending_blocks": "3"}


def fail(*_: object) -> bytes:
    """Fail as no method should."""
    raise RuntimeError(SECRET)


async def fail_later(*_: object) -> None:
    """Fail as no method should, in a coroutine."""
    fail()


async def test_a_fault_of_the_server_tells_the_caller_nothing_of_its_inside() -> None:
    """The caller gets INTERNAL and a pointer to the log; the log has the traceback."""
    with capture_logs() as logs:
        async with serving(
            get_node=fail, list_blocks=fail_later, watch_events=fail_later, write_blocks=fail_later
        ) as peer:
            errors = []
            for call in (
                lambda: peer.unary("GetNode"),
                lambda: peer.unary("ListBlocks"),
                lambda: told(peer.watch().read()),
                lambda: told(peer.write().read()),
            ):
                with pytest.raises(KvtierError) as error:
                    await call()
                errors.append(error.value)

    for failure in errors:
        assert (failure.code.name, failure.reason) == ("INTERNAL", Reason.INTERNAL)
        assert SECRET not in str(failure)
        assert "log" in failure.message
    assert [SECRET in repr(entry["exc_info"]) for entry in logs] == [True] * 4


async def test_a_stream_may_fail_after_some_messages() -> None:
    """What was sent before a refusal arrives, then the refusal."""

    async def watch(_request: object, send: Send) -> None:
        await send(b"first")
        raise invalid("enough")

    async with serving(watch_events=watch) as peer:
        call = peer.watch()
        assert await call.read() == b"first"
        with pytest.raises(KvtierError, match="enough"):
            await told(call.read())


async def test_initial_metadata_of_a_stream_comes_before_its_first_message() -> None:
    """A follower of a silent node learns at once that it is connected."""

    async def watch(_request: object, send: Send) -> None:
        await asyncio.Event().wait()

    async with serving(watch_events=watch) as peer:
        call = peer.watch()
        async with asyncio.timeout(10):
            assert await call.initial_metadata() is not None
        call.cancel()


@pytest.mark.parametrize("kind", ["watch", "write"])
async def test_a_caller_that_leaves_ends_its_call(kind: str) -> None:
    """The method is cancelled where it waits, cleans up, and nothing is logged as a failure."""
    started, ended = asyncio.Event(), asyncio.Event()

    async def wait(*_: object) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with capture_logs() as logs:
        async with serving(watch_events=wait, write_blocks=wait) as peer:
            call = peer.watch() if kind == "watch" else peer.write()
            async with asyncio.timeout(10):
                await started.wait()
                call.cancel()
                await ended.wait()

    assert logs == []


async def test_each_call_runs_what_comes_before_it() -> None:
    """What is due, such as leases that expired, is done before a call looks at anything."""
    order: list[str] = []

    def get(_request: object) -> bytes:
        order.append("call")
        return b""

    async with serving(before=lambda: order.append("before"), get_node=get) as peer:
        await peer.unary("GetNode")
        await peer.unary("GetNode")

    assert order == ["before", "call"] * 2
