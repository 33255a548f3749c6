"""Calls that move bytes, driven message by message without gRPC."""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor, Future
from typing import Any

from google.protobuf.message import Message
from xxhash import xxh3_64_intdigest

from kvtier.server.services.transfer_service import TransferService, Written
from kvtier.v1.result_pb2 import ReadResult, WriteResult
from kvtier.v1.transfer_service_pb2 import (
    ReadBlocksRequest,
    ReadBlocksResponse,
    WriteBlocksRequest,
    WriteBlocksResponse,
)
from kvtier.wire.chunks import split
from tests.contract.support import words


async def settle() -> None:
    """Let every task run until all of them wait."""
    for _ in range(60):
        await asyncio.sleep(0)


def data(place: int, *payloads: bytes, spoilt: bool = False) -> WriteBlocksRequest:
    """A message with whole blocks from a place on; a spoilt one has wrong checksums."""
    return WriteBlocksRequest(
        block_index=place,
        checksums=[xxh3_64_intdigest(each) ^ spoilt for each in payloads],
        data=b"".join(payloads),
    )


def part(place: int, payload: bytes, start: int, end: int) -> WriteBlocksRequest:
    """A message with some bytes of one block."""
    ends = end >= len(payload)
    return WriteBlocksRequest(
        block_index=place,
        offset=start,
        checksums=[xxh3_64_intdigest(payload)] if ends else [],
        data=payload[start:end],
    )


class Upload:
    """A WriteBlocks call whose caller sends what the test tells.

    Attributes:
        task: The call.
        answers: What came back.
        reading: Set while the caller takes answers; until then the server waits with the next.
    """

    def __init__(self, service: TransferService, *messages: WriteBlocksRequest) -> None:
        self.answers: list[WriteBlocksResponse] = []
        self.reading = asyncio.Event()
        self.reading.set()
        self._messages: asyncio.Queue[WriteBlocksRequest | None] = asyncio.Queue()
        for message in messages:
            self._messages.put_nowait(message)
        self.task = asyncio.create_task(service.write_blocks(self._requests(), self._send))

    async def send(self, *messages: WriteBlocksRequest) -> None:
        """Send messages and let the server work on them."""
        for message in messages:
            self._messages.put_nowait(message)
        await settle()

    async def end(self) -> dict[int, str]:
        """End the caller's half, wait for the call, and return the result of each place."""
        self._messages.put_nowait(None)
        await self.task
        return self.results()

    @property
    def unread(self) -> int:
        """How many messages the server has not read."""
        return self._messages.qsize()

    async def vanish(self) -> None:
        """Be the caller whose connection broke."""
        self.task.cancel()
        await asyncio.wait([self.task])

    def results(self) -> dict[int, str]:
        """Return the last result of each place that was told."""
        told: dict[int, str] = {}
        for answer in self.answers:
            told.update(zip(answer.block_indexes, words(WriteResult, answer.results), strict=True))
        return told

    async def _requests(self) -> AsyncIterator[Written]:
        while (message := await self._messages.get()) is not None:
            yield split(WriteBlocksRequest, message.SerializeToString())

    async def _send(self, message: bytes | Message) -> None:
        assert isinstance(message, WriteBlocksResponse)
        answer = WriteBlocksResponse()
        answer.CopyFrom(message)
        self.answers.append(answer)
        await self.reading.wait()


async def write(service: TransferService, *messages: WriteBlocksRequest) -> Upload:
    """Make a whole WriteBlocks call."""
    upload = Upload(service, *messages)
    await upload.end()
    return upload


class Download:
    """A ReadBlocks call whose caller takes one message, or all.

    Attributes:
        task: The call.
        answers: What came.
    """

    def __init__(
        self, service: TransferService, request: ReadBlocksRequest, *, takes: int = 1 << 30
    ) -> None:
        self.answers: list[ReadBlocksResponse] = []
        self._room = asyncio.Semaphore(takes)
        self.task = asyncio.create_task(service.read_blocks(request, self._send))

    def take(self) -> None:
        """Take one more message."""
        self._room.release()

    async def _send(self, message: bytes | Message) -> None:
        assert isinstance(message, bytes)
        await self._room.acquire()
        self.answers.append(ReadBlocksResponse.FromString(message))

    def results(self) -> dict[int, str]:
        """Return why places were not sent."""
        return {
            place: result
            for answer in self.answers
            for place, result in zip(
                answer.block_indexes, words(ReadResult, answer.results), strict=True
            )
        }

    def payloads(self, size: int) -> dict[int, bytes]:
        """Return the blocks of one size that came whole, by place, each equal to its checksum."""
        stream: dict[int, bytes] = {}
        for answer in self.answers:
            skipped, at = set(self.results()), answer.block_index
            for start in range(0, len(answer.data), size):
                while at in skipped:
                    at += 1
                stream[at] = stream.get(at, b"") + answer.data[start : start + size]
                at += 1
        sums = [checksum for answer in self.answers for checksum in answer.checksums]
        assert [xxh3_64_intdigest(each) for each in stream.values()] == sums
        return stream


async def read(service: TransferService, request: ReadBlocksRequest) -> Download:
    """Make a whole ReadBlocks call."""
    download = Download(service, request)
    await download.task
    return download


class HeldThreads(Executor):
    """Threads that copy only when the test lets them."""

    def __init__(self) -> None:
        self._waiting: list[Callable[[], None]] = []

    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        self._waiting.append(lambda: future.set_result(work(*args, **kwargs)))
        return future

    async def finish(self) -> None:
        """Do all the work that waits."""
        waiting, self._waiting = self._waiting, []
        for work in waiting:
            work()
        await settle()

    def __len__(self) -> int:
        return len(self._waiting)
