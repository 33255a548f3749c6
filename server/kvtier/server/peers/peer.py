"""One node that blocks may be pulled from: its connection, and what is done when it fails."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import grpc
import grpc.aio
import structlog
from google.protobuf.message import DecodeError

from kvtier.server.channel_options import Option
from kvtier.v1.transfer_service_pb2 import ReadBlocksRequest, ReadBlocksResponse
from kvtier.wire.chunks import split
from kvtier.wire.credentials import Credentials, Identity
from kvtier.wire.errors import (
    KvtierError,
    Reason,
    decode_details,
)
from kvtier.wire.handshakes import why_no_plaintext, why_no_tls

_log = structlog.get_logger(__name__)

# A message without its data, and the data.
Message = tuple[ReadBlocksResponse, memoryview]

_METHOD = "/kvtier.v1.TransferService/ReadBlocks"
_LONGEST_DETAILS = 200
# What a peer in good health may answer, and the code that it is passed on with.
_ANSWERS = {
    Reason.NAMESPACE_UNKNOWN: grpc.StatusCode.NOT_FOUND,
    Reason.TIER_UNKNOWN: grpc.StatusCode.NOT_FOUND,
    Reason.TRANSFER_LIMIT: grpc.StatusCode.RESOURCE_EXHAUSTED,
}


class PeerError(KvtierError):
    """A peer refused, failed, or is out of reach."""


class _Line:
    """A connection, who this node is on it, and the number of calls on it."""

    def __init__(self, endpoint: str, identity: Identity | None, options: Sequence[Option]) -> None:
        # Without the scheme a host named unix would be one.
        target = f"dns:///{endpoint}"
        self.identity = identity
        self.channel = (
            grpc.aio.insecure_channel(target, options=options)
            if identity is None
            else identity.open(target, options)
        )
        self.calls = 0


class Peer:
    """A node that may be read from.

    After a failure it is left alone for a while, in which every call is refused at once, and then
    reached over a new connection: the old one may be dead without a word.

    Args:
        endpoint: Its address, HOST:PORT.
        timeout: How long it may send nothing, in seconds.
        pause: How long it is left alone after a failure, in seconds.
        options: gRPC's options of the connection.
        credentials: TLS and who this node is; None for plaintext. When its files change, the next
            calls go over a new connection.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        timeout: float,
        pause: float,
        options: Sequence[Option],
        credentials: Credentials | None = None,
    ) -> None:
        self.endpoint = endpoint
        self._credentials = credentials
        self._timeout = timeout
        self._pause = pause
        self._options = options
        self._line: _Line | None = None
        self._paused_until = 0.0
        self._failure = ""

    @asynccontextmanager
    async def reading(self, request: ReadBlocksRequest) -> AsyncIterator["Reading"]:
        """Begin to read blocks; the call has ended when the body has.

        Raises:
            PeerError: UNAVAILABLE when the peer was out of reach a moment ago.
        """
        self._refuse_while_paused()
        line = await self._take_line()
        method: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = line.channel.unary_stream(_METHOD)
        call = method(request.SerializeToString())
        try:
            yield Reading(self, line, call, self._timeout)
        finally:
            call.cancel()
            line.calls -= 1
            if line is not self._line and not line.calls:
                await line.channel.close()

    async def _take_line(self) -> _Line:
        """Return a connection for one more call: a new one when the credentials changed."""
        identity = None if self._credentials is None else self._credentials.identity()
        before = line = self._line
        if line is None or line.identity is not identity:
            line = self._line = _Line(self.endpoint, identity, self._options)
        line.calls += 1
        if before is not line and before is not None and not before.calls:
            await before.channel.close()
        return line

    async def close(self) -> None:
        """Close the connection; calls under way are cancelled."""
        line, self._line = self._line, None
        if line is not None:
            await line.channel.close()

    def failed(self, line: _Line, what: str) -> PeerError:
        """Leave the peer alone for a while; return the error that says why.

        A call on a connection that was left before says nothing about the one in use.
        """
        if line is not self._line:
            return self._unavailable(what, max(0.0, self._pause_left()))
        _log.warning("a peer failed", peer=self.endpoint, failure=what, pause=self._pause)
        self._line = None
        self._failure = what
        self._paused_until = asyncio.get_running_loop().time() + self._pause
        return self._unavailable(what, self._pause)

    def _refuse_while_paused(self) -> None:
        left = self._pause_left()
        if left > 0:
            raise self._unavailable(f"{self._failure}, and is left alone for {left:.1f} s", left)

    def _pause_left(self) -> float:
        return self._paused_until - asyncio.get_running_loop().time()

    def why_unreachable(self, details: str) -> str:
        """Return why a call did not reach the peer, out of gRPC's words for it."""
        if self._credentials is None:
            return why_no_plaintext(details)
        why, problem = why_no_tls(details), self._credentials.problem
        return f"{why or details}; {problem}" if problem else why

    def _unavailable(self, what: str, seconds: float) -> PeerError:
        return PeerError(
            grpc.StatusCode.UNAVAILABLE,
            Reason.PEER_UNREACHABLE,
            f"peer {self.endpoint} {what}",
            retry_after=seconds,
        )


class Reading:
    """One call of ReadBlocks at a peer.

    Args:
        peer: The peer.
        line: The connection that it is on.
        call: The call.
        timeout: How long the peer may send nothing, in seconds.
    """

    def __init__(
        self,
        peer: Peer,
        line: _Line,
        call: "grpc.aio.UnaryStreamCall[bytes, bytes]",
        timeout: float,
    ) -> None:
        self._peer = peer
        self._line = line
        self._call = call
        self._timeout = timeout

    async def next(self) -> Message | None:
        """Return the next message, None after the last.

        Raises:
            PeerError: UNAVAILABLE when the peer is out of reach, sends nothing or nonsense;
                NOT_FOUND or RESOURCE_EXHAUSTED when it refused so.
        """
        try:
            async with asyncio.timeout(self._timeout):
                message = await self._call.read()
        except TimeoutError:
            raise self._failed(f"sent nothing for {self._timeout:g} s") from None
        except grpc.aio.AioRpcError as error:
            raise self._refused(error) from None
        if not isinstance(message, bytes):
            return None
        try:
            return split(ReadBlocksResponse, message)
        except DecodeError:
            raise self.broke(f"{len(message)} bytes that are no message") from None

    def broke(self, what: str) -> PeerError:
        """Return the error of a peer that does not keep to the protocol; it counts as a failure."""
        return self._failed(f"broke the protocol: {what}")

    def _refused(self, error: grpc.aio.AioRpcError) -> PeerError:
        trailers = [(str(key), value) for key, value in error.trailing_metadata() or ()]
        told = decode_details(error.code(), error.details() or "", trailers)
        details = " ".join(told.message.split())[:_LONGEST_DETAILS]
        for reason, code in _ANSWERS.items():
            if told.reason == reason:
                return PeerError(
                    code,
                    reason,
                    f"peer {self._peer.endpoint} refused: {details}",
                    retry_after=told.retry_after,
                )
        out_of_reach = not told.reason and told.code is grpc.StatusCode.UNAVAILABLE
        if out_of_reach and (why := self._peer.why_unreachable(told.message)):
            return self._failed(why)
        return self._failed(f"failed: {details} ({told.reason or told.code.name})")

    def _failed(self, what: str) -> PeerError:
        return self._peer.failed(self._line, what)
