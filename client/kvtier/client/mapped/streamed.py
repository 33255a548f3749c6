"""Calls of leases that share a stream: for a caller that makes many, at less cost for each."""

import asyncio
from typing import cast

import grpc
import grpc.aio
from google.protobuf.message import Message

from kvtier.client.chunks import framing_error
from kvtier.client.connection import Connection, Request, Response
from kvtier.client.errors import KvtierError
from kvtier.client.leases import LeaseCalls
from kvtier.client.mapped.call_stream import KINDS, CallStream
from kvtier.v1.lease_stream_pb2 import LeaseAnswer
from kvtier.wire.errors import decode_status


class StreamedLeases(LeaseCalls):
    """`LeaseCalls` over one stream; those of pins go alone.

    The first call opens the stream, and the next one a new stream when that broke. A call which it
    left without an answer is made once more, alone: the lease id makes that harmless. Calls to a
    node that knows no such streams go alone too.

    Args:
        connection: The client's connection.
    """

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._stream: CallStream | None = None
        self._left: list[CallStream] = []
        self._alone = False

    async def close(self) -> None:
        """End the stream; further calls go alone."""
        self._alone = True
        for stream in (self._stream, *self._left):
            if stream is not None:
                await stream.close()

    async def _ask(
        self,
        method: "grpc.aio.UnaryUnaryMultiCallable[Request, Response]",
        request: Request,
        namespace: bytes = b"",
    ) -> Response:
        asked = cast("Message", request)

        async def attempt() -> Response:
            answer = None if self._alone else await self._answer(asked)
            if answer is None:
                self._connection.check_open()
                return await super(StreamedLeases, self)._ask(method, request)
            return cast("Response", self._outcome(answer, asked))

        return await self._connection.remembering(namespace, attempt)

    async def _answer(self, request: Message) -> LeaseAnswer | None:
        stream, timeout = self._open(), self._connection.timeout
        try:
            async with asyncio.timeout(timeout):
                answer = await stream.ask(request)
        except TimeoutError:
            ended = KvtierError(grpc.StatusCode.DEADLINE_EXCEEDED, "", "")
            raise self._connection.told(ended) from None
        self._alone = self._alone or stream.unknown
        return answer

    def _open(self) -> CallStream:
        """Return the stream that takes calls, over the connections that new calls go over."""
        link, stream = self._connection.link, self._stream
        if stream is not None and stream.link is link and not stream.over:
            return stream
        if stream is not None:
            stream.leave()
            self._left = [each for each in (*self._left, stream) if not each.ended]
        self._stream = CallStream(link)
        return self._stream

    def _outcome(self, answer: LeaseAnswer, request: Message) -> Message:
        kind, wanted = answer.WhichOneof("outcome"), KINDS[request.DESCRIPTOR.full_name].name
        if kind == "error":
            raise self._connection.told(decode_status(answer.error))
        if kind != wanted:
            raise framing_error(f"an answer of {kind} to a call of {wanted}")
        return cast("Message", getattr(answer, wanted))
