"""The node that the model is compared with, served and reached over real gRPC."""

import asyncio
import os
from collections.abc import Coroutine, Sequence
from itertools import count
from typing import Any, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from kvtier.server.clock import ManualClock
from kvtier.server.config import NodeConfig
from kvtier.server.lifecycle import TierServer
from kvtier.v1 import tier_service_pb2 as pb
from kvtier.v1.event_service_pb2 import (
    EVENT_VIEW_FULL,
    WatchEventsRequest,
    WatchEventsResponse,
)
from kvtier.v1.event_service_pb2_grpc import EventServiceStub
from kvtier.v1.tier_service_pb2_grpc import TierServiceStub
from kvtier.v1.transfer_service_pb2 import (
    ReadBlocksRequest,
    ReadBlocksResponse,
    WriteBlocksRequest,
    WriteBlocksResponse,
)
from kvtier.v1.transfer_service_pb2_grpc import TransferServiceStub
from kvtier.wire.errors import decode_details
from tests.model.store_actions import StoreMachine
from tests.model.subject import PER_OWNER, M
from tests.model.universe import NAMESPACES

R = TypeVar("R")
_TIMEOUT = 30.0
_numbers = count()


class OverGrpc:
    """A node that serves on loopback, one client of it, and a follower."""

    def __init__(self, tier: dict[str, object]) -> None:
        self._runner = asyncio.Runner()
        self._clock = ManualClock()
        self._through = -1
        self._run(self._start(tier))

    async def _start(self, tier: dict[str, object]) -> None:
        config = NodeConfig.model_validate(
            {
                "node_id": f"model-{os.getpid()}-{next(_numbers)}",
                "listen": "127.0.0.1:0",
                "tiers": [tier],
                "drain_timeout": 0,
                "events": {"linger": 0},
                "limits": {"leases_per_owner": PER_OWNER},
            }
        )
        self._server = TierServer(config, self._clock)
        await self._server.start()
        self._channel = grpc.aio.insecure_channel(self._server.address)
        self._tiers = TierServiceStub(self._channel)
        self._transfers = TransferServiceStub(self._channel)
        for described in NAMESPACES:
            request = pb.RegisterNamespaceRequest(namespace=described)
            await self._tiers.RegisterNamespace(request, timeout=_TIMEOUT)
        watching = WatchEventsRequest(view=EVENT_VIEW_FULL)
        self._watch = EventServiceStub(self._channel).WatchEvents(watching)

    def call(self, method: str, request: Message, answer: type[M]) -> M:
        """See `Subject`."""
        name = "".join(word.title() for word in method.split("_"))

        async def whole() -> Any:
            return await getattr(self._tiers, name)(request, timeout=_TIMEOUT)

        response = self._run(whole())
        assert isinstance(response, answer)
        return response

    def write(
        self, messages: Sequence[WriteBlocksRequest], *, vanish_after: set[int] | None = None
    ) -> list[WriteBlocksResponse]:
        """See `Subject`."""
        return self._run(self._write(messages, vanish_after))

    async def _write(
        self, messages: Sequence[WriteBlocksRequest], vanish_after: set[int] | None
    ) -> list[WriteBlocksResponse]:
        call = self._transfers.WriteBlocks(timeout=_TIMEOUT)
        (message,) = messages
        await call.write(message)
        if vanish_after is None:
            await call.done_writing()
        answers: list[WriteBlocksResponse] = []
        missing = set(vanish_after or ())
        while isinstance(answer := await call.read(), WriteBlocksResponse):
            answers.append(answer)
            missing.difference_update(answer.block_indexes)
            if vanish_after is not None and not missing:
                call.cancel()
                break
        await self._no_transfers()
        return answers

    async def _no_transfers(self) -> None:
        while self._server.node.transfers:  # noqa: ASYNC110 - the node tells nobody
            await asyncio.sleep(0.001)

    def read(self, request: ReadBlocksRequest) -> list[ReadBlocksResponse]:
        """See `Subject`."""

        async def whole() -> list[ReadBlocksResponse]:
            return [
                answer async for answer in self._transfers.ReadBlocks(request, timeout=_TIMEOUT)
            ]

        return self._run(whole())

    def events(self) -> list[WatchEventsResponse]:
        """See `Subject`; they are those that a follower is sent."""
        head = self.call("get_node", pb.GetNodeRequest(), pb.GetNodeResponse).node.head.sequence
        messages = []
        while self._through < head:
            message = self._run(asyncio.wait_for(self._watch.read(), _TIMEOUT))
            assert isinstance(message, WatchEventsResponse)
            messages.append(message)
            # Of the opening, only the last message counts.
            if message.WhichOneof("kind") in {"synced", "batches", "progress"}:
                self._through = message.through
        return messages

    def advance(self, seconds: float) -> None:
        """See `Subject`."""
        self._clock.advance(seconds)

    def close(self) -> None:
        """See `Subject`."""
        self._run(self._stop())
        self._runner.close()

    async def _stop(self) -> None:
        self._watch.cancel()
        await self._channel.close()
        self._server.hurry()
        await self._server.drain_and_stop()

    def _run(self, work: Coroutine[Any, Any, R]) -> R:
        async def whole() -> R:
            try:
                return await work
            except grpc.aio.AioRpcError as error:
                code, text = error.code(), error.details() or ""
                raise decode_details(code, text, error.trailing_metadata() or ()) from error

        return self._runner.run(whole())


class OverGrpcMachine(StoreMachine):
    """Everything that a caller does, over gRPC."""

    one_message = True

    def new_subject(self, capacity: int) -> OverGrpc:
        """Return a node that serves."""
        return OverGrpc(self.tier_config(capacity))
