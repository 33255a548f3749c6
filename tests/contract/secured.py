"""Servers that know their callers, and callers that they know."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio
from google.protobuf.descriptor import MethodDescriptor

from kvtier.v1.event_service_pb2 import WatchEventsRequest, WatchEventsResponse
from kvtier.wire.errors import KvtierError
from tests.certificates import Authority, Issued, replace
from tests.waiting import until

from .wire import METHODS, Wire, refusal

# A file is read once it was left alone, and streams end soon after.
SOON = 10.0


def write_tokens(path: Path, *tokens: str) -> Path:
    """Write the file that knows these tokens, each by its own text as name."""
    lines = [f"{token} {hashlib.sha256(token.encode()).hexdigest()}\n" for token in tokens]
    return replace(path, "".join(["# tokens\n", *lines]).encode())


def token_auth(directory: Path, *tokens: str, grants: Any = None) -> dict[str, Any]:
    """Return the setting `auth` with a file of tokens."""
    return {"tokens": str(write_tokens(directory / "tokens", *tokens)), "grants": grants}


def grant(identity: str, role: str, *namespaces: str) -> dict[str, Any]:
    """Return one grant, for all namespaces unless some are given."""
    return {"identity": identity, "role": role, "namespaces": namespaces or ("*",)}


class Files:
    """The files of a server's TLS, which a test may change.

    Args:
        directory: Where they are.
        authority: Who stands for the server, and for callers.
    """

    def __init__(self, directory: Path, authority: Authority) -> None:
        self.authority = authority
        self.cert, self.key = authority.server().write(directory, "server")
        self.ca = replace(directory / "ca.pem", authority.cert)
        self.crl = replace(directory / "crl.pem", authority.revoke([]))
        self._directory = directory

    def settings(self, *, callers: bool = True) -> dict[str, Any]:
        """Return the setting `tls`; with or without certificates of callers."""
        shown = {"cert": str(self.cert), "key": str(self.key)}
        return shown | ({"client_ca": str(self.ca), "crl": str(self.crl)} if callers else {})

    def show(self, issued: Issued) -> None:
        """Give the server another certificate."""
        issued.write(self._directory, "server")


@asynccontextmanager
async def secure_wire(
    endpoint: str,
    authority: Authority | None = None,
    caller: Issued | None = None,
    token: str | None = None,
) -> AsyncIterator[Wire]:
    """Connect to a server.

    Args:
        endpoint: Where it is.
        authority: Who stands for it; None for plaintext.
        caller: The certificate to show.
        token: The token to send.
    """
    metadata = () if token is None else (("authorization", f"Bearer {token}"),)
    async with _channel(endpoint, authority, caller) as channel:
        yield Wire(channel, metadata)


def _channel(endpoint: str, authority: Authority | None, caller: Issued | None) -> Any:
    # Each has a connection of its own.
    options = [("grpc.use_local_subchannel_pool", 1)]
    if authority is None:
        return grpc.aio.insecure_channel(endpoint, options)
    shown = (caller.key, caller.cert) if caller else (None, None)
    credentials = grpc.ssl_channel_credentials(authority.cert, *shown)
    return grpc.aio.secure_channel(endpoint, credentials, options)


async def outcome(wire: Wire, rpc: str, *requests: Any, answers: int | None = None) -> str:
    """Return how a call ended: OK, or its code."""
    return (await wire.call(METHODS[rpc], *requests, answers=answers)).code


async def never() -> AsyncIterator[bytes]:
    """Send nothing, for ever."""
    await asyncio.Event().wait()
    yield b""


async def answer_to_nothing(wire: Wire, method: MethodDescriptor) -> KvtierError | list[bytes]:
    """Return the error of a call that sends nothing, or what it answers at once."""
    call = wire.open(method, never())
    try:
        return [await call.read()]
    except grpc.aio.AioRpcError as error:
        return refusal(error)
    finally:
        call.cancel()


class Watching:
    """A stream of events that is read until it ends.

    Attributes:
        messages: What came.
        error: What it ended with; None while it lives.
    """

    def __init__(self, wire: Wire, request: WatchEventsRequest) -> None:
        self.messages: list[WatchEventsResponse] = []
        self.error: KvtierError | None = None
        self._call = wire.open(METHODS["EventService.WatchEvents"], [request.SerializeToString()])
        self._reading = asyncio.create_task(self._read())

    @property
    def synced(self) -> bool:
        """Whether it has told all that there was."""
        return any(message.HasField("synced") for message in self.messages)

    async def ended(self) -> KvtierError:
        """Wait until it ends, and return what with."""
        await until(lambda: self.error, SOON)
        assert self.error is not None
        return self.error

    async def goes_on(self) -> None:
        """Wait until it has told something more."""
        count = len(self.messages)
        await until(lambda: self.error or len(self.messages) > count, SOON)
        assert self.error is None

    async def leave(self) -> None:
        """End it."""
        self._call.cancel()
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    async def _read(self) -> None:
        try:
            async for message in self._call:
                self.messages.append(WatchEventsResponse.FromString(message))
        except grpc.aio.AioRpcError as error:
            self.error = refusal(error)


@asynccontextmanager
async def watching(wire: Wire, **request: Any) -> AsyncIterator[Watching]:
    """Follow a server; the follower is in sync when it is given."""
    watched = Watching(wire, WatchEventsRequest(**request))
    try:
        await until(lambda: watched.synced or watched.error, SOON)
        assert watched.error is None, watched.error
        yield watched
    finally:
        await watched.leave()
