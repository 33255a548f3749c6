"""Calls that reserve, pin, renew and release by lease."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvtier.client.arguments import build, duration
from kvtier.client.calls import Calls
from kvtier.client.connection import Request, Response
from kvtier.v1.block_pb2 import BlockRun, BlockSet, Lease
from kvtier.v1.pinning_pb2 import (
    PinBlocksRequest,
    PinBlocksResponse,
    UnpinBlocksRequest,
    UnpinBlocksResponse,
)
from kvtier.v1.tier_service_pb2 import (
    CompleteLoadRequest,
    CompleteLoadResponse,
    CompleteStoreRequest,
    CompleteStoreResponse,
    PrepareLoadRequest,
    PrepareLoadResponse,
    PrepareStoreResponse,
    ReleaseLeasesRequest,
    ReleaseLeasesResponse,
    RenewLeasesRequest,
    RenewLeasesResponse,
)

if TYPE_CHECKING:
    import grpc.aio


class LeaseCalls(Calls):
    """Storing and loading under leases.

    The caller's lease id makes repeats harmless: a repeated prepare gives the same answer, a
    repeated completion or release the first outcome. Times to live are in seconds; None leaves
    them to the node.
    """

    async def _ask(
        self,
        method: "grpc.aio.UnaryUnaryMultiCallable[Request, Response]",
        request: Request,
        namespace: bytes = b"",
    ) -> Response:
        return await self._connection.call(method, request, namespace)

    async def prepare_store(
        self,
        tier: str,
        namespace: bytes,
        runs: Sequence[BlockRun],
        *,
        lease_id: bytes | None = None,
        ttl: float | None = None,
        request_id: str = "",
        mapping: int = 0,
    ) -> PrepareStoreResponse:
        """Reserve slots for the absent blocks of an offer.

        Args:
            tier: The tier's name.
            namespace: The fingerprint, 32 bytes.
            runs: What is offered; blocks are numbered by their place over all runs.
            lease_id: 16 random bytes, to be able to repeat the call; None makes new ones.
            ttl: Seconds that the lease lives unless it is renewed.
            request_id: The request whose blocks these are, for recency.
            mapping: The number of a mapping, from `map_tier`, through which the caller writes by
                itself: the slots are told.
        """
        request = self._offer(
            tier, namespace, runs, lease_id=lease_id, ttl=ttl, request_id=request_id
        )
        request.locate, request.mapping = bool(mapping), mapping
        return await self._ask(self._connection.tiers.PrepareStore, request, request.namespace)

    async def complete_store(
        self,
        lease: Lease,
        *,
        failed_blocks: Sequence[int] = (),
        failed: bool = False,
        wait_copies: bool = False,
        checksums: Sequence[int] = (),
    ) -> CompleteStoreResponse:
        """Make the written blocks of a store lease readable and end it.

        Args:
            lease: The lease, from the answer of `prepare_store`.
            failed_blocks: Places in the offer of blocks that could not be written.
            failed: Nothing was written: give every block back.
            wait_copies: Return only when the copies that the tier writes through have ended.
            checksums: From a caller that wrote through a mapping: the XXH3-64 of each slot told.
        """
        request = build(
            CompleteStoreRequest,
            lease=lease,
            failed_blocks=failed_blocks,
            failed=failed,
            wait_copies=wait_copies,
            checksums=checksums,
        )
        return await self._ask(self._connection.tiers.CompleteStore, request)

    async def prepare_load(
        self,
        tier: str,
        namespace: bytes,
        blocks: Sequence[BlockSet],
        *,
        lease_id: bytes | None = None,
        ttl: float | None = None,
        request_id: str = "",
        promote: bool = False,
        wait: bool = False,
        mapping: int = 0,
    ) -> PrepareLoadResponse:
        """Pin readable blocks; those that are not readable are told and not pinned.

        Args:
            tier: The tier's name.
            namespace: The fingerprint, 32 bytes.
            blocks: The blocks, numbered by their place over all sets.
            lease_id: 16 random bytes, to be able to repeat the call; None makes new ones.
            ttl: Seconds that the lease lives unless it is renewed.
            request_id: The request that loads, for recency.
            promote: First bring up, from slower tiers of the node, what the tier lacks: as long a
                prefix as there is room for.
            wait: With promote: wait until the blocks are there, for most of the timeout. Without,
                blocks on their way are HIT_PENDING.
            mapping: The number of a mapping, from `map_tier`, through which the caller reads by
                itself: the slots are told.
        """
        request = build(
            PrepareLoadRequest,
            tier=tier,
            namespace=namespace,
            blocks=blocks,
            lease_id=self._lease_id(lease_id),
            owner=self._connection.owner,
            ttl=duration("ttl", ttl),
            request_id=request_id,
            promote=promote,
            wait=wait,
            locate=bool(mapping),
            mapping=mapping,
        )
        return await self._ask(self._connection.tiers.PrepareLoad, request, request.namespace)

    async def complete_load(self, lease: Lease) -> CompleteLoadResponse:
        """Unpin the blocks of a load lease and end it.

        Raises:
            AbortedError: When the lease had ended before: what was read may have changed.
        """
        request = build(CompleteLoadRequest, lease=lease)
        return await self._ask(self._connection.tiers.CompleteLoad, request)

    async def renew_leases(
        self, leases: Sequence[Lease], ttl: float | None = None
    ) -> RenewLeasesResponse:
        """Give open leases a new time to live, from now; pins have that of pins."""
        request = build(RenewLeasesRequest, leases=leases, ttl=duration("ttl", ttl))
        return await self._ask(self._connection.tiers.RenewLeases, request)

    async def release_leases(
        self, leases: Sequence[Lease] = (), owner: str = ""
    ) -> ReleaseLeasesResponse:
        """End leases, and all leases of an owner, pins too, when one is named."""
        request = build(ReleaseLeasesRequest, leases=leases, owner=owner)
        return await self._ask(self._connection.tiers.ReleaseLeases, request)

    async def pin(
        self,
        tier: str,
        namespace: bytes,
        blocks: Sequence[BlockSet],
        *,
        lease_id: bytes | None = None,
        ttl: float | None = None,
        owner: str | None = None,
    ) -> PinBlocksResponse:
        """Keep readable blocks for long; those that are not readable are told and not pinned.

        Args:
            tier: The tier's name.
            namespace: The fingerprint, 32 bytes.
            blocks: The blocks, numbered by their place over all sets.
            lease_id: 16 random bytes, to be able to repeat the call; None makes new ones.
            ttl: Seconds that the pin lives unless it is renewed.
            owner: Who holds the pin, when it is to outlive this client; None means the client's.
        """
        request = build(
            PinBlocksRequest,
            tier=tier,
            namespace=namespace,
            blocks=blocks,
            lease_id=self._lease_id(lease_id),
            owner=self._connection.owner if owner is None else owner,
            ttl=duration("ttl", ttl),
        )
        return await self._connection.call(
            self._connection.tiers.PinBlocks, request, request.namespace
        )

    async def unpin(self, leases: Sequence[Lease] = (), owner: str = "") -> UnpinBlocksResponse:
        """End pins, and all pins of an owner when one is named; other leases stay."""
        request = build(UnpinBlocksRequest, leases=leases, owner=owner)
        return await self._connection.call(self._connection.tiers.UnpinBlocks, request)
