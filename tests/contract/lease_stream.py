"""A caller that makes its calls of leases on one stream, by the wire alone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio
from google.protobuf.message import Message

from kvtier.client.ending import answers
from kvtier.v1.lease_stream_pb2 import (
    LeaseAnswer,
    LeaseBlocksRequest,
    LeaseBlocksResponse,
    LeaseCall,
)
from kvtier.wire.errors import KvtierError, decode_status

from .wire import METHODS, PATIENCE, refusal, wire

METHOD = METHODS["TransferService.LeaseBlocks"]


class Caller:
    """One open stream.

    Attributes:
        order: The numbers of the calls that were answered, in order.
        error: What the stream ended with; None while it goes on, or when it ended well.
    """

    def __init__(self, raw: Any) -> None:
        self.order: list[int] = []
        self.error: KvtierError | None = None
        self._outgoing: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._answers: dict[int, LeaseAnswer] = {}
        self._came = asyncio.Condition()
        self._call = raw.open(METHOD, self._requests())
        self._reading = asyncio.create_task(self._read())

    def send(self, message: bytes | LeaseBlocksRequest) -> None:
        """Send one message, or bytes that need not be any."""
        data = message if isinstance(message, bytes) else message.SerializeToString()
        self._outgoing.put_nowait(data)

    def ask(self, number: int, **request: Any) -> None:
        """Make one call, named as the field of `LeaseCall`."""
        self.send(LeaseBlocksRequest(calls=[LeaseCall(number=number, **request)]))

    async def answer(self, number: int) -> Any:
        """Return the answer to a call: its message, or its error."""
        async with asyncio.timeout(PATIENCE), self._came:
            await self._came.wait_for(lambda: number in self._answers or self._reading.done())
        told = self._answers[number]
        kind = told.WhichOneof("outcome")
        return decode_status(told.error) if kind == "error" else getattr(told, str(kind))

    async def call(self, number: int, **request: Any) -> Any:
        """Make one call, and return its answer."""
        self.ask(number, **request)
        return await self.answer(number)

    async def end(self) -> KvtierError | None:
        """End this half, and return what the stream ended with."""
        self._outgoing.put_nowait(None)
        return await self.ended()

    async def ended(self) -> KvtierError | None:
        """Wait until the node ends the stream, and return what it ended with."""
        async with asyncio.timeout(PATIENCE):
            await asyncio.shield(self._reading)
        return self.error

    def leave(self) -> None:
        """Break the stream off."""
        self._call.cancel()

    async def close(self) -> None:
        """Let go of everything."""
        self._outgoing.put_nowait(None)
        self.leave()
        await asyncio.wait([self._reading])

    async def _requests(self) -> AsyncIterator[bytes]:
        while (message := await self._outgoing.get()) is not None:
            yield message

    async def _read(self) -> None:
        try:
            async for data in answers(self._call):
                for answer in LeaseBlocksResponse.FromString(data).answers:
                    self._answers[answer.number] = answer
                    self.order.append(answer.number)
                async with self._came:
                    self._came.notify_all()
        except grpc.aio.AioRpcError as error:
            self.error = refusal(error)


@asynccontextmanager
async def lease_stream(endpoint: str) -> AsyncIterator[Caller]:
    """Open a stream."""
    async with wire(endpoint) as raw:
        caller = Caller(raw)
        try:
            yield caller
        finally:
            await caller.close()


def error_in(answers: list[bytes]) -> KvtierError | None:
    """Return the first error among the answers of a stream."""
    told = [each for data in answers for each in LeaseBlocksResponse.FromString(data).answers]
    return next((decode_status(each.error) for each in told if each.HasField("error")), None)


def in_calls(*requests: Message) -> LeaseBlocksRequest:
    """Return a message with a call for each request."""
    fields = {
        field.message_type.full_name: field.name
        for field in LeaseCall.DESCRIPTOR.fields
        if field.message_type is not None
    }
    calls = [
        LeaseCall(number=number, **{fields[request.DESCRIPTOR.full_name]: request})  # type: ignore[arg-type]
        for number, request in enumerate(requests, 1)
    ]
    return LeaseBlocksRequest(calls=calls)
