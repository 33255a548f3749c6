"""Calls that look up, touch, remove and list blocks."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING

import grpc.aio

from kvtier.client.arguments import build
from kvtier.client.calls import Calls
from kvtier.v1.block_pb2 import BlockRun, BlockSet, Locality, Medium
from kvtier.v1.copying_pb2 import CopyBlocksRequest, CopyBlocksResponse, PeerTier
from kvtier.v1.listing_pb2 import (
    DescribeBlockRequest,
    DescribeBlockResponse,
    ListBlocksRequest,
    ListBlocksResponse,
)
from kvtier.v1.lookup_pb2 import LookupBlocksRequest, LookupBlocksResponse
from kvtier.v1.removal_pb2 import (
    ClearTierRequest,
    ClearTierResponse,
    DeleteBlocksRequest,
    DeleteBlocksResponse,
)
from kvtier.v1.tier_pb2 import Block
from kvtier.v1.tier_service_pb2 import TouchBlocksRequest, TouchBlocksResponse

if TYPE_CHECKING:
    _Copying = grpc.aio.UnaryStreamCall[CopyBlocksRequest, CopyBlocksResponse]


class BlockCalls(Calls):
    """Looking up, touching, removing and listing blocks.

    Every call raises a `KvtierError` of the tree in `kvtier.client.errors`; what a node answers in
    which case is told by the comments of `tier_service.proto`.
    """

    async def lookup(
        self,
        namespace: bytes,
        chains: Sequence[BlockSet],
        *,
        include_blocks: bool = False,
        media: Sequence[Medium.ValueType] = (),
        localities: Sequence[Locality.ValueType] = (),
    ) -> LookupBlocksResponse:
        """Tell how long a prefix of each chain the tiers hold. It takes no lease.

        Args:
            namespace: The fingerprint, 32 bytes.
            chains: The chains, each parent first.
            include_blocks: Answer for every block too, also past the first miss.
            media: The only media whose tiers count; none means all.
            localities: The only localities whose tiers count; none means all.
        """
        request = build(
            LookupBlocksRequest,
            namespace=namespace,
            chains=chains,
            include_blocks=include_blocks,
            media=media,
            localities=localities,
        )
        return await self._connection.call(
            self._connection.tiers.LookupBlocks, request, request.namespace
        )

    async def touch(
        self,
        namespace: bytes,
        blocks: Sequence[BlockSet],
        *,
        request_id: str = "",
        tiers: Sequence[str] = (),
    ) -> TouchBlocksResponse:
        """Stamp blocks as used by a request, in these tiers or in all."""
        request = build(
            TouchBlocksRequest,
            namespace=namespace,
            blocks=blocks,
            request_id=request_id,
            tiers=tiers,
        )
        return await self._connection.call(
            self._connection.tiers.TouchBlocks, request, request.namespace
        )

    async def copy(
        self,
        namespace: bytes,
        runs: Sequence[BlockRun],
        *,
        to_tier: str,
        from_tier: str | None = None,
        from_peer: PeerTier | None = None,
        move: bool = False,
    ) -> AsyncGenerator[CopyBlocksResponse, None]:
        """Copy or move blocks from tier to tier, and yield what became of them as it is known.

        The call has no deadline, since how long it takes is for the caller to say: end it by
        closing the generator (`contextlib.aclosing`), or by `asyncio.timeout` around what reads it.
        The node gives up a peer that stands still, and a node that is gone without a word is
        noticed by gRPC's keepalive within a minute. What was copied when the call ends stays.

        Args:
            namespace: The fingerprint, 32 bytes.
            runs: The blocks, numbered by their place over all runs; parents and positions matter
                only for a copy from a peer.
            to_tier: The tier that takes the copies.
            from_tier: The tier of the same node where they are.
            from_peer: Or a tier of another node.
            move: Within the node: remove the source's copy once the other is readable.
        """
        request = build(
            CopyBlocksRequest,
            namespace=namespace,
            runs=runs,
            to_tier=to_tier,
            from_tier=from_tier,
            from_peer=from_peer,
            move=move,
        )

        async def begin() -> "tuple[_Copying, CopyBlocksResponse | None]":
            call = self._connection.tiers.CopyBlocks(request)
            return call, await self._next_copied(call)

        call, answer = await self._connection.remembering(request.namespace, begin)
        try:
            while answer is not None:
                yield answer
                answer = await self._next_copied(call)
        finally:
            call.cancel()

    async def _next_copied(self, call: "_Copying") -> CopyBlocksResponse | None:
        try:
            answer = await call.read()
        except asyncio.CancelledError:
            # gRPC itself may not: see `answers`.
            call.cancel()
            raise
        except grpc.aio.AioRpcError as error:
            raise self._connection.failure(error) from None
        return answer if isinstance(answer, CopyBlocksResponse) else None

    async def delete(
        self,
        namespace: bytes,
        blocks: Sequence[BlockSet],
        *,
        tiers: Sequence[str] = (),
        force: bool = False,
    ) -> DeleteBlocksResponse:
        """Remove blocks from these tiers or from all; absent ones are passed over.

        Args:
            namespace: The fingerprint, 32 bytes.
            blocks: The blocks, numbered by their place over all sets.
            tiers: Names of tiers; none means all.
            force: Remove leased blocks too.
        """
        request = build(
            DeleteBlocksRequest, namespace=namespace, blocks=blocks, tiers=tiers, force=force
        )
        return await self._connection.call(
            self._connection.tiers.DeleteBlocks, request, request.namespace
        )

    async def clear(
        self, tier: str, namespace: bytes = b"", *, force: bool = False
    ) -> ClearTierResponse:
        """Remove every block of a tier, or of one namespace there.

        Args:
            tier: The tier's name.
            namespace: The fingerprint of the only namespace to clear; empty means all.
            force: Clear leased blocks too.
        """
        request = build(ClearTierRequest, tier=tier, namespace=namespace, force=force)
        return await self._connection.call(
            self._connection.tiers.ClearTier, request, request.namespace
        )

    async def list_blocks(
        self,
        *,
        tiers: Sequence[str] = (),
        namespace: bytes = b"",
        group: int | None = None,
        scope: bytes | None = None,
        page_size: int = 0,
    ) -> AsyncGenerator[Block, None]:
        """Yield the readable blocks that pass every filter, page by page.

        Args:
            tiers: Names of tiers; none means all.
            namespace: The fingerprint of the only namespace; empty means all.
            group: The only KV-cache group; None means all.
            scope: The only scope; None means all.
            page_size: Blocks a page; 0 leaves it to the node.
        """
        request = build(
            ListBlocksRequest,
            tiers=tiers,
            namespace=namespace,
            group=group,
            scope=scope,
            page_size=page_size,
        )
        while True:
            page = await self.list_blocks_page(request)
            for block in page.blocks:
                yield block
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    async def list_blocks_page(self, request: ListBlocksRequest) -> ListBlocksResponse:
        """Return one page of a listing, for who keeps its place; `list_blocks` goes on by itself.

        Args:
            request: What to list, and the token of the page before.
        """
        return await self._connection.call(
            self._connection.tiers.ListBlocks, request, request.namespace
        )

    async def describe_block(
        self, namespace: bytes, group: int, scope: bytes, block_hash: bytes
    ) -> DescribeBlockResponse:
        """Tell everything about one block: its copies and their leases."""
        request = build(
            DescribeBlockRequest,
            namespace=namespace,
            group=group,
            scope=scope,
            block_hash=block_hash,
        )
        return await self._connection.call(
            self._connection.tiers.DescribeBlock, request, request.namespace
        )
