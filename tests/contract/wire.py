"""Calls without the client: encoded messages out and in, over a channel with gRPC's defaults."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import grpc.aio
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

import kvtier.v1
from kvtier.client.ending import answers as answers_of
from kvtier.wire.errors import KvtierError, decode_details

PATIENCE = 10.0

# Every method of every service, by its service and name.
METHODS: dict[str, MethodDescriptor] = {
    f"{service.name}.{method.name}": method
    for module in iter_modules(kvtier.v1.__path__)
    if module.name.endswith("_pb2")
    for service in import_module(f"kvtier.v1.{module.name}").DESCRIPTOR.services_by_name.values()
    for method in service.methods
}


@dataclass
class Outcome:
    """How a call ended.

    Attributes:
        answers: The encoded answers that came.
        error: What it ended with; None when it ended well, or was left once enough had come.
    """

    answers: list[bytes] = field(default_factory=list)
    error: KvtierError | None = None

    @property
    def code(self) -> str:
        return self.error.code.name if self.error else "OK"


def refusal(error: grpc.aio.AioRpcError) -> KvtierError:
    """Return an error with the details that its trailers carry."""
    trailers = [(str(key), value) for key, value in error.trailing_metadata() or ()]
    return decode_details(error.code(), error.details() or "", trailers)


class Wire:
    """Calls any method of a node with any bytes.

    Every method is called as one that streams both ways: on the wire there is no difference, and so
    a call can also have too few messages, or too many.
    """

    def __init__(self, channel: grpc.aio.Channel, metadata: Sequence[tuple[str, str]] = ()) -> None:
        self._channel = channel
        self._metadata = metadata

    def open(self, method: MethodDescriptor, requests: Any) -> Any:
        """Begin a call that sends encoded requests, from a list or an asynchronous iterator."""
        path = f"/{method.containing_service.full_name}/{method.name}"
        return self._channel.stream_stream(path)(
            requests, timeout=PATIENCE, metadata=self._metadata
        )

    async def call(
        self, method: MethodDescriptor, *requests: bytes | Message, answers: int | None = None
    ) -> Outcome:
        """Send requests and read what comes.

        Args:
            method: The method.
            requests: Messages, or bytes that need not be any.
            answers: How many answers are enough; None means all.
        """
        outcome = Outcome()
        call = self.open(method, [_encoded(each) for each in requests])
        try:
            async for answer in answers_of(call):
                outcome.answers.append(answer)
                if len(outcome.answers) == answers:
                    break
        except grpc.aio.AioRpcError as error:
            outcome.error = refusal(error)
        finally:
            call.cancel()
        return outcome


@asynccontextmanager
async def wire(endpoint: str) -> AsyncIterator[Wire]:
    """Connect to a node."""
    async with grpc.aio.insecure_channel(endpoint) as channel:
        yield Wire(channel)


def _encoded(message: bytes | Message) -> bytes:
    return message if isinstance(message, bytes) else message.SerializeToString()
