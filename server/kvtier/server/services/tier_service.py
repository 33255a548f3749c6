"""TierService: one short method for each call; what it does is in `kvtier.server.operations`."""

from collections.abc import Awaitable

from kvtier.server.node import Node
from kvtier.server.operations import (
    copying,
    describing,
    leasing,
    listing,
    loading,
    looking,
    pinning,
    removing,
    storing,
)
from kvtier.server.services.rpc import Send
from kvtier.v1 import tier_service_pb2 as pb
from kvtier.v1.copying_pb2 import CopyBlocksRequest
from kvtier.v1.listing_pb2 import (
    DescribeBlockRequest,
    DescribeBlockResponse,
    ListBlocksRequest,
    ListBlocksResponse,
)
from kvtier.v1.lookup_pb2 import LookupBlocksRequest, LookupBlocksResponse
from kvtier.v1.pinning_pb2 import PinBlocksRequest, UnpinBlocksRequest, UnpinBlocksResponse
from kvtier.v1.removal_pb2 import (
    ClearTierRequest,
    ClearTierResponse,
    DeleteBlocksRequest,
    DeleteBlocksResponse,
    DeleteNamespaceRequest,
    DeleteNamespaceResponse,
)


class TierService:
    """Looks up and manages what a node's tiers hold.

    The calls are documented in `kvtier/v1/tier_service.proto`. A response that a repeated call must
    get again is kept, and returned, encoded.
    """

    def __init__(self, node: Node) -> None:
        self._node = node

    def get_node(self, _request: pb.GetNodeRequest) -> pb.GetNodeResponse:
        """Describe the node."""
        return describing.get_node(self._node)

    def list_tiers(self, _request: pb.ListTiersRequest) -> pb.ListTiersResponse:
        """Describe the tiers."""
        return describing.list_tiers(self._node)

    def register_namespace(
        self, request: pb.RegisterNamespaceRequest
    ) -> pb.RegisterNamespaceResponse:
        """Make a namespace known."""
        return describing.register_namespace(self._node, request)

    def list_namespaces(self, _request: pb.ListNamespacesRequest) -> pb.ListNamespacesResponse:
        """Describe the namespaces."""
        return describing.list_namespaces(self._node)

    async def delete_namespace(self, request: DeleteNamespaceRequest) -> DeleteNamespaceResponse:
        """Remove a namespace's blocks, and forget it."""
        return await removing.delete_namespace(self._node, request)

    def lookup_blocks(
        self, request: LookupBlocksRequest
    ) -> LookupBlocksResponse | Awaitable[LookupBlocksResponse]:
        """Tell how long a prefix of each chain is readable."""
        return looking.lookup_blocks(self._node, request)

    async def prepare_store(self, request: pb.PrepareStoreRequest) -> bytes:
        """Reserve slots for an offer."""
        return await storing.prepare_store(self._node, request)

    async def complete_store(self, request: pb.CompleteStoreRequest) -> bytes:
        """Make written blocks readable."""
        return await storing.complete_store(self._node, request)

    async def prepare_load(
        self, request: pb.PrepareLoadRequest, seconds_left: float | None = None
    ) -> bytes:
        """Pin readable blocks."""
        return await loading.prepare_load(self._node, request, seconds_left)

    def complete_load(self, request: pb.CompleteLoadRequest) -> bytes:
        """Unpin blocks."""
        return loading.complete_load(self._node, request)

    def renew_leases(self, request: pb.RenewLeasesRequest) -> pb.RenewLeasesResponse:
        """Give leases a new time to live."""
        return leasing.renew_leases(self._node, request)

    def release_leases(self, request: pb.ReleaseLeasesRequest) -> pb.ReleaseLeasesResponse:
        """End leases."""
        return leasing.release_leases(self._node, request)

    def touch_blocks(self, request: pb.TouchBlocksRequest) -> pb.TouchBlocksResponse:
        """Stamp blocks as used."""
        return looking.touch_blocks(self._node, request)

    async def copy_blocks(self, request: CopyBlocksRequest, send: Send) -> None:
        """Copy blocks from tier to tier."""
        await copying.copy_blocks(self._node, request, send)

    async def pin_blocks(self, request: PinBlocksRequest) -> bytes:
        """Keep readable blocks for long."""
        return await pinning.pin_blocks(self._node, request)

    def unpin_blocks(self, request: UnpinBlocksRequest) -> UnpinBlocksResponse:
        """End pins."""
        return pinning.unpin_blocks(self._node, request)

    async def delete_blocks(self, request: DeleteBlocksRequest) -> DeleteBlocksResponse:
        """Remove blocks."""
        return await removing.delete_blocks(self._node, request)

    async def clear_tier(self, request: ClearTierRequest) -> ClearTierResponse:
        """Remove every block of a tier."""
        return await removing.clear_tier(self._node, request)

    async def list_blocks(self, request: ListBlocksRequest) -> ListBlocksResponse:
        """List readable blocks, page by page."""
        return await listing.list_blocks(self._node, request)

    def describe_block(self, request: DescribeBlockRequest) -> DescribeBlockResponse:
        """Tell everything about one block."""
        return listing.describe_block(self._node, request)
