"""One stream to a node, and the calls on it that wait for their answers."""

import asyncio
from collections.abc import AsyncIterator
from itertools import count

import grpc
import grpc.aio
from google.protobuf.message import Message

from kvtier.client.ending import answers
from kvtier.client.link import Link
from kvtier.v1.lease_stream_pb2 import LeaseAnswer, LeaseBlocksRequest, LeaseCall
from kvtier.wire.framing import bytes_field, fitting, varint_field

# Small calls that are made together share a message up to this size.
_MESSAGE_BYTES = 256 << 10
_CALLS = LeaseBlocksRequest.DESCRIPTOR.fields_by_name["calls"].number
# The field of a call that holds each kind of request; that of its answer has the same name.
KINDS = {
    field.message_type.full_name: field
    for field in LeaseCall.DESCRIPTOR.oneofs_by_name["request"].fields
    if field.message_type is not None
}


class CallStream:
    """An open stream of `LeaseBlocks`.

    Args:
        link: The connections that it goes over.

    Attributes:
        link: As given.
        over: Whether it takes no more calls.
        unknown: Whether it ended because the node does not know such streams.
    """

    def __init__(self, link: Link) -> None:
        self.link = link
        self.over = False
        self.unknown = False
        self._numbers = count(1)
        self._pending: dict[int, asyncio.Future[LeaseAnswer | None]] = {}
        self._unsent: list[bytes] = []
        self._rung = asyncio.Event()
        self._call = link.leases(self._requests())
        self._reading = asyncio.create_task(self._read())

    @property
    def ended(self) -> bool:
        """Whether nothing of it is left."""
        return self._reading.done()

    async def ask(self, request: Message) -> LeaseAnswer | None:
        """Make a call; return its answer, or None when the stream ended before it came."""
        number = next(self._numbers)
        asked = bytes_field(KINDS[request.DESCRIPTOR.full_name].number, request.SerializeToString())
        self._unsent.append(bytes_field(_CALLS, varint_field(1, number) + asked))
        self._rung.set()
        answer: asyncio.Future[LeaseAnswer | None] = asyncio.get_running_loop().create_future()
        self._pending[number] = answer
        try:
            return await answer
        finally:
            self._pending.pop(number, None)

    def leave(self) -> None:
        """Take no more calls; those under way get their answers."""
        self.over = True
        self._rung.set()

    async def close(self) -> None:
        """End the stream; calls under way get no answer."""
        self._call.cancel()
        await asyncio.wait([self._reading])

    async def _requests(self) -> AsyncIterator[bytes]:
        while self._unsent or not self.over:
            few = fitting(self._unsent, _MESSAGE_BYTES)
            message, self._unsent = b"".join(self._unsent[:few]), self._unsent[few:]
            if message:
                yield message
            else:
                self._rung.clear()
                await self._rung.wait()

    async def _read(self) -> None:
        try:
            async for response in answers(self._call):
                for answer in response.answers:
                    waiting = self._pending.get(answer.number)
                    if waiting is not None and not waiting.done():
                        waiting.set_result(answer)
        except grpc.aio.AioRpcError as error:
            self.unknown = error.code() is grpc.StatusCode.UNIMPLEMENTED
        finally:
            self._unsent.clear()
            self.leave()
            for waiting in self._pending.values():
                if not waiting.done():
                    waiting.set_result(None)
