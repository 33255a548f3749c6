"""A server that knows its callers answers nobody else, whatever is called."""

from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2
from grpc_health.v1.health_pb2_grpc import HealthStub
from grpc_reflection.v1alpha import reflection_pb2

from kvtier.wire.errors import KvtierError, Reason
from tests.waiting import until

from .conftest import Serve
from .proxies import ServeProxy, serve_proxy
from .secured import (
    SOON,
    answer_to_nothing,
    outcome,
    secure_wire,
    token_auth,
    watching,
    write_tokens,
)
from .wire import METHODS, Wire

__all__ = ["serve_proxy"]

REFLECTION = reflection_pb2.DESCRIPTOR.services_by_name["ServerReflection"].methods[0]
EVERY = {**METHODS, "ServerReflection.ServerReflectionInfo": REFLECTION}
# A proxy is drained by a signal alone.
AT_A_PROXY = {rpc: method for rpc, method in EVERY.items() if not rpc.startswith("NodeService")}

BAD: dict[str, tuple[list[str], Reason]] = {
    "no token": ([], Reason.NO_IDENTITY),
    "another": (["Bearer wrong"], Reason.BAD_TOKEN),
    "one that was removed": (["Bearer old"], Reason.BAD_TOKEN),
    "of another case": (["Bearer GOOD"], Reason.BAD_TOKEN),
    "a part of it": (["Bearer goo"], Reason.BAD_TOKEN),
    "none after the scheme": (["Bearer "], Reason.BAD_TOKEN),
    "another scheme": (["Basic good"], Reason.BAD_TOKEN),
    "no scheme": (["good"], Reason.BAD_TOKEN),
    "two": (["Bearer wrong", "Bearer good"], Reason.BAD_TOKEN),
}
Start = Callable[[], Awaitable[tuple[str, Any]]]


@pytest.fixture(params=["node", "proxy"])
def start(
    request: pytest.FixtureRequest, serve: Serve, serve_proxy: ServeProxy, tmp_path: Path
) -> Start:
    """Start a server of each kind that knows one token, and one no more; give its RPCs."""

    async def started() -> tuple[str, Any]:
        settings = {"auth": token_auth(tmp_path, "old", "good"), "reflection": True}
        if request.param == "node":
            node = await serve(register=False, **settings)
            server: Any = node.server
        else:
            behind = await serve()
            server = await serve_proxy(behind.endpoint, **settings)
        async with secure_wire(server.address, token="old") as old:
            assert await outcome(old, "TierService.GetNode", b"") == "OK"
            write_tokens(tmp_path / "tokens", "good")
            await until(lambda: len(server.serving.security._tokens.value) == 1, SOON)
        return server.address, EVERY if request.param == "node" else AT_A_PROXY

    return started


@asynccontextmanager
async def calling(endpoint: str, *authorizations: str) -> Any:
    async with grpc.aio.insecure_channel(endpoint) as channel:
        yield Wire(channel, [("authorization", each) for each in authorizations])


@pytest.mark.parametrize("kind", BAD)
async def test_whoever_is_not_known_is_told_nothing(start: Start, kind: str) -> None:
    """No RPC answers, streaming or not; not even a request is waited for."""
    endpoint, methods = await start()
    sent, reason = BAD[kind]
    async with calling(endpoint, *sent) as wire:
        for rpc, method in methods.items():
            told = await answer_to_nothing(wire, method)

            assert isinstance(told, KvtierError), rpc
            assert (told.code.name, told.reason) == ("UNAUTHENTICATED", reason), rpc
            assert "Bearer" in told.message or "bearer" in told.message
            assert "good" not in told.message


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_whoever_is_known_is_let_in(start: Start, scheme: str) -> None:
    """To every RPC, each of which has something else to say to an empty request."""
    endpoint, methods = await start()
    async with calling(endpoint, f"{scheme} good") as wire:
        for rpc, method in methods.items():
            answer = await wire.call(method, b"\xff\xff", answers=1)

            # One that takes no request fields, or a proxy that only reads, is fine with anything.
            assert answer.code in {"INVALID_ARGUMENT", "UNIMPLEMENTED"}, rpc


async def test_health_needs_no_identity(start: Start) -> None:
    """Probes have none."""
    endpoint, _ = await start()
    async with grpc.aio.insecure_channel(endpoint) as channel:
        stub: Any = HealthStub(channel)
        answer = await stub.Check(health_pb2.HealthCheckRequest(service="liveness"))

    assert answer.status == health_pb2.HealthCheckResponse.SERVING


async def test_a_stream_lives_as_long_as_its_token(serve: Serve, tmp_path: Path) -> None:
    """One whose token leaves the file is ended; the others go on, and so do new tokens."""
    node = await serve(register=False, auth=token_auth(tmp_path, "old", "kept"))
    async with (
        secure_wire(node.endpoint, token="old") as old,
        secure_wire(node.endpoint, token="kept") as kept,
        secure_wire(node.endpoint, token="new") as new,
        watching(old) as dropped,
        watching(kept) as staying,
    ):
        assert await outcome(new, "TierService.GetNode", b"") == "UNAUTHENTICATED"
        write_tokens(tmp_path / "tokens", "kept", "new")
        ended = await dropped.ended()

        assert (ended.code.name, ended.reason) == ("UNAUTHENTICATED", Reason.REVOKED)
        assert "token:old" in ended.message
        assert await outcome(old, "TierService.GetNode", b"") == "UNAUTHENTICATED"
        assert await outcome(new, "TierService.GetNode", b"") == "OK"
        await staying.goes_on()
    assert node.server.serving.security.failures.counts == {
        "no_identity": 0,
        "bad_token": 2,
        "not_allowed": 0,
        "revoked": 1,
    }


async def test_a_stream_that_is_not_read_is_ended_too(serve: Serve, tmp_path: Path) -> None:
    """A follower that stands still does not keep its place by that."""
    node = await serve(register=False, auth=token_auth(tmp_path, "old"))
    async with secure_wire(node.endpoint, token="old") as old:
        call = old.open(METHODS["EventService.WatchEvents"], [b""])
        await until(lambda: node.node.followers == 1, SOON)
        write_tokens(tmp_path / "tokens")

        await until(lambda: node.node.followers == 0, SOON)
        call.cancel()


@pytest.mark.parametrize("text", ["old", "", "old zz\n"])
async def test_a_broken_file_of_tokens_changes_nothing(
    serve: Serve, tmp_path: Path, text: str
) -> None:
    """Whoever was known still is, in calls under way and in new ones."""
    node = await serve(register=False, auth=token_auth(tmp_path, "old"))
    async with secure_wire(node.endpoint, token="old") as old, watching(old) as staying:
        (tmp_path / "tokens").unlink() if not text else (tmp_path / "tokens").write_text(text)
        read: Any = node.server.serving.security._tokens
        await until(lambda: read._read == read._stamp(), SOON)
        await staying.goes_on()

        assert await outcome(old, "TierService.GetNode", b"") == "OK"
