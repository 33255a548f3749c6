"""What every way of moving bytes does, and the one that works everywhere: a stream."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, TypeAlias

import grpc

from kvtier.client.errors import KvtierError, typed
from kvtier.client.leases import LeaseCalls
from kvtier.client.mapped.buffers import Bytes
from kvtier.client.reports import DataPath, StoreReport
from kvtier.v1.block_pb2 import BlockRun, BlockSet, Lease
from kvtier.v1.result_pb2 import ReadResult
from kvtier.v1.tier_service_pb2 import PrepareLoadResponse

if TYPE_CHECKING:
    from kvtier.client.node import NodeClient

# The bytes of each block or None, and why.
Found: TypeAlias = tuple[list[memoryview | None], list[ReadResult.ValueType]]


class Way(Protocol):
    """A way between this process and a tier.

    Attributes:
        path: Which it is.
        leases: The calls of leases that it makes.
    """

    path: DataPath
    leases: LeaseCalls

    async def store(
        self,
        namespace: bytes,
        runs: Sequence[BlockRun],
        sources: Sequence[Bytes],
        *,
        width: int,
        ttl: float | None,
        request_id: str,
    ) -> StoreReport:
        """Offer blocks, write those that are wanted, and make them readable."""

    async def pin(
        self, namespace: bytes, blocks: Sequence[BlockSet], *, ttl: float | None, request_id: str
    ) -> PrepareLoadResponse:
        """Pin blocks under a lease."""

    async def copy_out(self, answer: PrepareLoadResponse, targets: Sequence[Bytes]) -> Found:
        """Copy pinned blocks into buffers."""

    async def look_in(self, answer: PrepareLoadResponse, sizes: Sequence[int]) -> Found:
        """Return views of pinned blocks, good for as long as the lease."""


class Stream:
    """A `Way` through the node's streams.

    Args:
        client: The node's client.
        tier: The tier's name.
    """

    path = DataPath.STREAM

    def __init__(self, client: "NodeClient", tier: str) -> None:
        self.leases: LeaseCalls = client
        self._client = client
        self._tier = tier

    async def store(
        self,
        namespace: bytes,
        runs: Sequence[BlockRun],
        sources: Sequence[Bytes],
        *,
        width: int,  # noqa: ARG002 - what another way needs
        ttl: float | None,
        request_id: str,
    ) -> StoreReport:
        """See `Way`."""
        payloads = [source.view for source in sources]
        return await self._client.store(
            self._tier, namespace, runs, payloads, ttl=ttl, request_id=request_id
        )

    async def pin(
        self, namespace: bytes, blocks: Sequence[BlockSet], *, ttl: float | None, request_id: str
    ) -> PrepareLoadResponse:
        """See `Way`."""
        return await self._client.prepare_load(
            self._tier, namespace, blocks, ttl=ttl, request_id=request_id
        )

    async def copy_out(self, answer: PrepareLoadResponse, targets: Sequence[Bytes]) -> Found:
        """See `Way`."""
        views = [target.view for target in targets]
        results = await self._client.read_blocks_into(answer.lease, views)
        found = [None if result else view for view, result in zip(views, results, strict=True)]
        return found, list(results)

    async def look_in(self, answer: PrepareLoadResponse, sizes: Sequence[int]) -> Found:
        """See `Way`."""
        report = await self._client.read_blocks(answer.lease, sizes)
        views = [None if each is None else memoryview(each) for each in report.payloads]
        return views, list(report.results)


def blocks_closed(tier: str | None = None) -> KvtierError:
    """Return the error that says that `Blocks` were used after they were closed."""
    whose = f"the blocks of tier {tier}" if tier else "the blocks"
    return typed(grpc.StatusCode.FAILED_PRECONDITION, "", f"{whose} are closed; make new ones")


async def let_go(leases: LeaseCalls, lease: Lease) -> None:
    """Release a lease under which nothing is copied any more; a cancellation does not stop it."""
    with suppress(KvtierError):
        await asyncio.shield(asyncio.ensure_future(leases.release_leases([lease])))
