"""A good request of every RPC, with every field set."""

from collections.abc import Callable, Sequence
from typing import Any

from google.protobuf.message import Message
from xxhash import xxh3_64_intdigest

from kvtier.v1 import event_service_pb2 as events
from kvtier.v1 import tier_service_pb2 as tiers
from kvtier.v1 import transfer_service_pb2 as transfers
from kvtier.v1.block_pb2 import Locality, Medium, Position
from kvtier.v1.copying_pb2 import CopyBlocksRequest, PeerTier
from kvtier.v1.listing_pb2 import DescribeBlockRequest, ListBlocksRequest
from kvtier.v1.lookup_pb2 import LookupBlocksRequest
from kvtier.v1.node_service_pb2 import DrainRequest
from kvtier.v1.pinning_pb2 import PinBlocksRequest, UnpinBlocksRequest
from kvtier.v1.removal_pb2 import ClearTierRequest, DeleteBlocksRequest, DeleteNamespaceRequest

from .lease_stream import in_calls
from .scene import NAMESPACE, NEW_LEASE, OWNER, SCOPE, TTL, Scene
from .support import BLOCK_BYTES, block_hash, payload


def written(block: object) -> dict[str, Any]:
    """The bytes of one block, as a message brings them."""
    data = payload(block, BLOCK_BYTES)
    return {"data": data, "checksums": [xxh3_64_intdigest(data)]}


# The calls that LeaseBlocks takes.
LEASE_CALLS = (
    "PrepareStore",
    "CompleteStore",
    "PrepareLoad",
    "CompleteLoad",
    "RenewLeases",
    "ReleaseLeases",
)
Calls = list[Sequence[Message]]
Good = Callable[[Scene], Calls]


def one(request: Message) -> Calls:
    """One call of one message."""
    return [[request]]


GOOD: dict[str, Good] = {
    "EventService.WatchEvents": lambda s: one(
        events.WatchEventsRequest(
            positions=[
                events.NodePosition(
                    node_id=s.node.node.node_id,
                    position=Position(epoch=s.node.node.log.epoch, sequence=s.node.node.log.head),
                )
            ],
            tiers=["cpu0"],
            media=[Medium.MEDIUM_CPU],
            namespaces=[s.namespace],
            view=events.EVENT_VIEW_FULL,
        )
    ),
    "TierService.GetNode": lambda _: one(tiers.GetNodeRequest()),
    "TierService.ListTiers": lambda _: one(tiers.ListTiersRequest()),
    "TierService.RegisterNamespace": lambda _: one(
        tiers.RegisterNamespaceRequest(namespace=NAMESPACE)
    ),
    "TierService.ListNamespaces": lambda _: one(tiers.ListNamespacesRequest()),
    "TierService.DeleteNamespace": lambda s: one(
        DeleteNamespaceRequest(namespace=s.namespace, force=True)
    ),
    "TierService.LookupBlocks": lambda s: one(
        LookupBlocksRequest(
            namespace=s.namespace,
            chains=s.blocks(),
            include_blocks=True,
            media=[Medium.MEDIUM_CPU],
            localities=[Locality.LOCALITY_LOCAL],
        )
    ),
    "TierService.PrepareStore": lambda s: one(s.offer()),
    "TierService.CompleteStore": lambda s: one(
        tiers.CompleteStoreRequest(
            lease=s.store, failed_blocks=[0], failed=True, wait_copies=True, checksums=[1]
        )
    ),
    "TierService.PrepareLoad": lambda s: one(
        tiers.PrepareLoadRequest(
            tier="cpu0",
            namespace=s.namespace,
            blocks=s.blocks(),
            lease_id=NEW_LEASE,
            owner=OWNER,
            ttl=TTL,
            request_id="request-1",
            promote=True,
            wait=True,
            locate=True,
            mapping=s.mapping,
        )
    ),
    "TierService.CompleteLoad": lambda s: one(tiers.CompleteLoadRequest(lease=s.load)),
    "TierService.RenewLeases": lambda s: one(
        tiers.RenewLeasesRequest(leases=[s.store, s.load], ttl=TTL)
    ),
    "TierService.ReleaseLeases": lambda s: one(
        tiers.ReleaseLeasesRequest(leases=[s.store], owner=OWNER)
    ),
    "TierService.PinBlocks": lambda s: one(
        PinBlocksRequest(
            tier="cpu0",
            namespace=s.namespace,
            blocks=s.blocks(),
            lease_id=NEW_LEASE,
            owner=OWNER,
            ttl=TTL,
        )
    ),
    "TierService.UnpinBlocks": lambda s: one(UnpinBlocksRequest(leases=[s.pin], owner=OWNER)),
    "TierService.TouchBlocks": lambda s: one(
        tiers.TouchBlocksRequest(
            namespace=s.namespace, blocks=s.blocks(), request_id="request-1", tiers=["cpu0"]
        )
    ),
    "TierService.CopyBlocks": lambda s: [
        [
            CopyBlocksRequest(
                namespace=s.namespace,
                runs=s.offer().runs,
                from_tier="gpu0",
                to_tier="cpu0",
                move=True,
            )
        ],
        [
            CopyBlocksRequest(
                namespace=s.namespace,
                runs=s.offer().runs,
                from_peer=PeerTier(endpoint=s.peer, tier="cpu0"),
                to_tier="cpu0",
            )
        ],
    ],
    "TierService.DeleteBlocks": lambda s: one(
        DeleteBlocksRequest(namespace=s.namespace, blocks=s.blocks(), tiers=["cpu0"], force=True)
    ),
    "TierService.ClearTier": lambda s: one(
        ClearTierRequest(tier="cpu0", namespace=s.namespace, force=True)
    ),
    "TierService.ListBlocks": lambda s: [
        [
            ListBlocksRequest(
                tiers=["cpu0"], namespace=s.namespace, group=1, scope=SCOPE, page_size=1
            )
        ],
        [ListBlocksRequest(page_size=1, page_token=s.page_token)],
    ],
    "TierService.DescribeBlock": lambda s: one(
        DescribeBlockRequest(
            namespace=s.namespace, group=1, scope=SCOPE, block_hash=block_hash("a")
        )
    ),
    "NodeService.Drain": lambda _: one(DrainRequest()),
    "TransferService.WriteBlocks": lambda s: [
        [transfers.WriteBlocksRequest(lease=s.store, **written("w"))],
        [transfers.WriteBlocksRequest(offer=s.offer(), **written("c"))],
        [
            transfers.WriteBlocksRequest(offer=s.offer(), data=payload("c")[:8]),
            transfers.WriteBlocksRequest(
                block_index=0, offset=8, data=payload("c")[8:], checksums=written("c")["checksums"]
            ),
        ],
        [
            transfers.WriteBlocksRequest(offer=s.offer()),
            transfers.WriteBlocksRequest(block_index=1, **written("d")),
        ],
    ],
    "TransferService.LeaseBlocks": lambda s: [
        # A call goes before that changes nothing, also when the client vanishes after it.
        [in_calls(tiers.RenewLeasesRequest(leases=[s.pin])), in_calls(each)]
        for name in LEASE_CALLS
        for messages in GOOD[f"TierService.{name}"](s)
        for each in messages
    ],
    "TransferService.MapTier": lambda _: one(transfers.MapTierRequest(tier="cpu0")),
    "TransferService.ReadBlocks": lambda s: [
        [transfers.ReadBlocksRequest(lease=s.load)],
        [
            transfers.ReadBlocksRequest(
                blocks=transfers.ReadTarget(tier="cpu0", namespace=s.namespace, blocks=s.blocks())
            )
        ],
    ],
}
