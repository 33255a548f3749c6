"""The calls of leases that come on one stream: served as they come, answered as they are done."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import partial
from inspect import isawaitable
from typing import Any

from google.protobuf.message import Message

from kvtier.server.node import Node
from kvtier.server.services.limits import count_refusal
from kvtier.server.services.rpc import Send, encode, refusal_of
from kvtier.server.services.tier_service import TierService
from kvtier.v1.lease_stream_pb2 import (
    LeaseAnswer,
    LeaseBlocksRequest,
    LeaseBlocksResponse,
    LeaseCall,
)
from kvtier.wire.errors import aborted, encode_details, invalid
from kvtier.wire.framing import bytes_field, fitting, varint_field

Answer = bytes | Message
Operation = Callable[[Any], Answer | Awaitable[Answer]]

MOST_CALLS = 64
# Small answers that are ready together share a message up to this size.
_MESSAGE_BYTES = 256 << 10
_LAST_WORDS = 0.2
_ANSWERS = LeaseBlocksResponse.DESCRIPTOR.fields_by_name["answers"].number
_OUTCOMES = {name: field.number for name, field in LeaseAnswer.DESCRIPTOR.fields_by_name.items()}


class LeaseStream:
    """Serves one stream of calls.

    At most `MOST_CALLS` calls are served, or wait for their answer to be taken; further ones are
    not read.

    Args:
        node: The node.
        service: What does the calls.
        send: Sends an encoded response.
        patience: Seconds that an answer may wait to be read.
    """

    def __init__(self, node: Node, service: TierService, send: Send, patience: float) -> None:
        self._node = node
        self._send = send
        self._patience = patience
        self._operations: dict[str, Operation] = {
            "prepare_store": service.prepare_store,
            "complete_store": service.complete_store,
            "prepare_load": service.prepare_load,
            "complete_load": service.complete_load,
            "renew_leases": service.renew_leases,
            "release_leases": service.release_leases,
        }
        self._room = asyncio.Semaphore(MOST_CALLS)
        self._waiting: set[asyncio.Future[Answer]] = set()
        self._ready: list[bytes] = []
        self._rung = asyncio.Event()
        self._stopping = False

    async def serve(self, requests: AsyncIterator[LeaseBlocksRequest]) -> None:
        """Serve calls until the caller ends its half, or the node has drained.

        Raises:
            KvtierError: What the stream ends with.
        """
        reading = asyncio.create_task(self._read(requests))
        sending = asyncio.create_task(self._send_answers())
        drained = asyncio.create_task(self._node.draining.wait())
        parts = {reading, sending, drained}
        try:
            await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            if not (reading.done() or sending.done()):
                reading.cancel()
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LAST_WORDS):
                        await self._all_answered()
            # gRPC takes no status while it sends a message.
            self._stop()
            await sending
            if reading.cancelled():
                self._node.refuse_when_drained()
            reading.result()
        finally:
            # What was broken off leads to this frame, by its error: see `rpc`.
            ending: list[asyncio.Future[Any]] = [*parts, *self._waiting]
            for each in ending:
                each.cancel()
            await asyncio.gather(*ending, return_exceptions=True)
            del reading, sending, drained, parts, ending

    def _stop(self) -> None:
        self._stopping = True
        self._rung.set()

    async def _read(self, requests: AsyncIterator[LeaseBlocksRequest]) -> None:
        empty = True
        async for request in requests:
            empty = False
            if not request.calls:
                raise invalid("calls is empty; send at least one call in a message")
            self._node.expire_leases()
            for call in request.calls:
                await self._room.acquire()
                self._begin(call)
        if empty:
            raise invalid("the stream brought no calls; send at least one message")
        await self._all_answered()

    async def _all_answered(self) -> None:
        for _ in range(MOST_CALLS):
            await self._room.acquire()

    def _begin(self, call: LeaseCall) -> None:
        kind = call.WhichOneof("request")
        if kind is None:
            raise invalid(f"call {call.number} has no request that this node knows")
        try:
            answer = self._operations[kind](getattr(call, kind))
        except Exception as error:  # noqa: BLE001 - every failure is the answer of its call
            self._refuse(call.number, error)
            return
        if isawaitable(answer):
            # Of the call itself: one around it that is cancelled at once would never begin it.
            task = asyncio.ensure_future(answer)
            self._waiting.add(task)
            task.add_done_callback(partial(self._done, call.number, kind))
        else:
            self._answer(call.number, kind, encode(answer))

    def _done(self, number: int, kind: str, task: asyncio.Future[Answer]) -> None:
        self._waiting.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._answer(number, kind, encode(task.result()))
        elif isinstance(error, Exception):
            self._refuse(number, error)

    def _refuse(self, number: int, error: Exception) -> None:
        count_refusal(self._node.limited, error)
        self._answer(number, "error", encode_details(refusal_of(error)))

    def _answer(self, number: int, kind: str, outcome: bytes) -> None:
        told = varint_field(1, number) + bytes_field(_OUTCOMES[kind], outcome)
        self._ready.append(bytes_field(_ANSWERS, told))
        self._rung.set()

    async def _send_answers(self) -> None:
        while not self._stopping:
            await self._rung.wait()
            self._rung.clear()
            while self._ready:
                count = fitting(self._ready, _MESSAGE_BYTES)
                message, self._ready = b"".join(self._ready[:count]), self._ready[count:]
                try:
                    async with asyncio.timeout(self._patience):
                        await self._send(message)
                except TimeoutError:
                    raise aborted(f"no answer was read for {self._patience:g} s") from None
                for _ in range(count):
                    self._room.release()
