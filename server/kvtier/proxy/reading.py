"""TierService of a proxy: one short method for each call."""

from collections.abc import Callable

from kvtier.client import BlockIndex
from kvtier.proxy.asking import Asking
from kvtier.proxy.behind import Members
from kvtier.proxy.describing import Describing
from kvtier.proxy.listing import Listing
from kvtier.proxy.looking import Looking
from kvtier.proxy.refusing import RefusedWrites
from kvtier.v1 import tier_service_pb2 as pb
from kvtier.v1.listing_pb2 import (
    DescribeBlockRequest,
    DescribeBlockResponse,
    ListBlocksRequest,
    ListBlocksResponse,
)
from kvtier.v1.lookup_pb2 import LookupBlocksRequest, LookupBlocksResponse
from kvtier.v1.tier_pb2 import Node

_DEADLINE = 2.0


class ReadService(RefusedWrites):
    """Looks up what the tiers of all nodes behind a proxy hold.

    The calls are documented in `kvtier/v1/tier_service.proto`. A tier is named NODE/TIER. Lookups
    are answered from the index and ask nobody; the others ask the nodes. What changes anything is
    refused.

    Args:
        members: Whom the proxy follows.
        index: What all of them hold.
        identity: The proxy itself, with its limits; it has no log and no leases.
        followers: Tells how many followers the proxy has.
        deadline: How long the nodes have to answer, in seconds.
    """

    def __init__(
        self,
        members: Members,
        index: BlockIndex,
        identity: Node,
        followers: Callable[[], int],
        deadline: float = _DEADLINE,
    ) -> None:
        super().__init__(members)
        asking = Asking(deadline)
        self._identity = identity
        self._followers = followers
        self._describing = Describing(members, index, asking)
        self._looking = Looking(members, index, identity.limits.hashes)
        self._listing = Listing(members, index, asking)

    def get_node(self, _request: pb.GetNodeRequest) -> pb.GetNodeResponse:
        """Describe the proxy."""
        answer = pb.GetNodeResponse(node=self._identity)
        answer.node.followers = self._followers()
        return answer

    async def list_tiers(self, _request: pb.ListTiersRequest) -> pb.ListTiersResponse:
        """Describe the tiers of all nodes."""
        return pb.ListTiersResponse(tiers=await self._describing.tiers())

    def list_namespaces(self, _request: pb.ListNamespacesRequest) -> pb.ListNamespacesResponse:
        """Describe the namespaces of all nodes."""
        return pb.ListNamespacesResponse(namespaces=self._describing.namespaces())

    async def lookup_blocks(self, request: LookupBlocksRequest) -> LookupBlocksResponse:
        """Tell how long a prefix of each chain is readable, and where."""
        return await self._looking.lookup(request)

    async def list_blocks(self, request: ListBlocksRequest) -> ListBlocksResponse:
        """List readable blocks, node after node, page by page."""
        return await self._listing.page(request)

    async def describe_block(self, request: DescribeBlockRequest) -> DescribeBlockResponse:
        """Tell everything about one block."""
        return await self._listing.describe(request)
