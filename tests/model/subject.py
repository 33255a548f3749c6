"""What the model is compared with: a node, reached in one way or another."""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any, Protocol, TypeVar

from google.protobuf.message import Message

from kvtier.v1.block_pb2 import RemovalReason
from kvtier.v1.event_service_pb2 import (
    RESET_REASON_NO_POSITION,
    EventBatch,
    EventBatches,
    Reset,
    Synced,
    WatchEventsResponse,
)
from kvtier.v1.transfer_service_pb2 import (
    ReadBlocksRequest,
    ReadBlocksResponse,
    WriteBlocksRequest,
    WriteBlocksResponse,
)
from kvtier.wire.hashes import split_hashes
from tests.contract.support import words
from tests.model.plain_parts import Batch, Key
from tests.model.universe import NAMESPACES, WIDTHS
from tests.unit.server.support import LocalNode
from tests.unit.server.transferring import Download, Upload, settle

PER_OWNER = 5
M = TypeVar("M", bound=Message)
R = TypeVar("R")


class Subject(Protocol):
    """A node with one tier, both namespaces registered, whose clock the test turns."""

    def call(self, method: str, request: Message, answer: type[M]) -> M:
        """Make a call of TierService, or raise its KvtierError."""
        ...

    def write(
        self, messages: Sequence[WriteBlocksRequest], *, vanish_after: set[int] | None = None
    ) -> list[WriteBlocksResponse]:
        """Make a WriteBlocks call, to its end, or until these places were told and then vanish."""
        ...

    def read(self, request: ReadBlocksRequest) -> list[ReadBlocksResponse]:
        """Make a ReadBlocks call."""
        ...

    def events(self) -> list[WatchEventsResponse]:
        """Return what a follower was sent since the last call, up to the head of the log."""
        ...

    def advance(self, seconds: float) -> None:
        """Turn the clock of the leases."""
        ...

    def close(self) -> None:
        """End the node."""
        ...


def batch_of(event: EventBatch) -> Batch:
    """Return a batch of events in the model's words."""
    return Batch(
        tuple(cleared.namespace for cleared in event.cleared),
        tuple(
            (words(RemovalReason, [removed.reason])[0], key)
            for removed in event.removed
            for key in _keys(removed)
        ),
        frozenset(key for stored in event.stored for key in _keys(stored)),
    )


def _keys(event: Any) -> list[Key]:
    hashes = split_hashes(event.block_hashes, WIDTHS[event.namespace])
    return [Key(event.namespace, event.group, event.scope, each) for each in hashes]


class InProcess:
    """The node's operations, called directly."""

    def __init__(self, tier: dict[str, object]) -> None:
        self.runner = asyncio.Runner()
        self.local = LocalNode(tier, limits={"leases_per_owner": PER_OWNER})
        for described in NAMESPACES:
            self.local.node.register(described)
        self._told = 0
        self._opened = False

    def call(self, method: str, request: Message, answer: type[M]) -> M:
        """See `Subject`."""
        self.local.node.expire_leases()
        response = getattr(self.local.tiers, method)(request)
        if isinstance(response, Awaitable):
            response = self.run(response)
        return answer.FromString(response) if isinstance(response, bytes) else response

    def write(
        self, messages: Sequence[WriteBlocksRequest], *, vanish_after: set[int] | None = None
    ) -> list[WriteBlocksResponse]:
        """See `Subject`."""
        upload = self.upload(*messages)
        self.run(upload.end() if vanish_after is None else upload.vanish())
        return upload.answers

    def upload(self, *messages: WriteBlocksRequest) -> Upload:
        """Begin a WriteBlocks call; raise what it fails with at once."""

        async def begin() -> Upload:
            upload = Upload(self.local.transfers, *messages)
            await settle()
            if upload.task.done():
                await upload.task
            return upload

        self.local.node.expire_leases()
        return self.run(begin())

    def read(self, request: ReadBlocksRequest) -> list[ReadBlocksResponse]:
        """See `Subject`."""

        async def all_of_it() -> list[ReadBlocksResponse]:
            download = Download(self.local.transfers, request)
            await download.task
            return download.answers

        self.local.node.expire_leases()
        return self.run(all_of_it())

    def events(self) -> list[WatchEventsResponse]:
        """See `Subject`; they are taken from the log itself."""
        log = self.local.node.log
        messages = [] if self._opened else self._opening()
        if log.head > self._told:
            entries = log.read(self._told, log.head)
            batches = EventBatches.FromString(b"".join(entry.full for entry in entries))
            messages.append(self._message(log.head, batches=batches))
        self._opened, self._told = True, log.head
        return messages

    def advance(self, seconds: float) -> None:
        """See `Subject`."""
        self.local.clock.advance(seconds)

    def close(self) -> None:
        """See `Subject`."""
        self.local.close()
        self.runner.close()

    def run(self, work: Awaitable[R]) -> R:
        """Run a coroutine to its end."""

        async def whole() -> R:
            return await work

        return self.runner.run(whole())

    def spoil(self, position: int) -> None:
        """Change one byte of the store."""
        self.local.stores[0].arena[position] ^= 1

    def _opening(self) -> list[WatchEventsResponse]:
        return [
            self._message(0, reset=Reset(reason=RESET_REASON_NO_POSITION)),
            *(self._message(0, namespace=described) for described in NAMESPACES),
            self._message(0, synced=Synced(blocks=0)),
        ]

    def _message(self, through: int, **kind: Any) -> WatchEventsResponse:
        return WatchEventsResponse(
            node_id=self.local.node.node_id,
            epoch=self.local.node.log.epoch,
            after=self._told,
            through=through,
            **kind,
        )
