"""What a demo runs: the requests, and tiers that are too small for them."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kvtier.cli.follow import TierKey
from kvtier.cli.trace import Request
from kvtier.v1.namespace_pb2 import Namespace

PRIMARY, SECONDARY = "primary", "secondary"
GPU = TierKey(PRIMARY, "gpu0")
CPU = TierKey(PRIMARY, "cpu0")
REMOTE = TierKey(SECONDARY, "cpu0")


class Plan(NamedTuple):
    """The requests of a demo, and what its tiers hold.

    Attributes:
        requests: What is replayed, in order.
        namespace: What the blocks are of.
        capacities: Blocks that each tier holds, in the order of the proxy.
    """

    requests: Sequence[Request]
    namespace: Namespace
    capacities: Mapping[TierKey, int]

    @property
    def block_bytes(self) -> int:
        """Bytes of a block."""
        return self.namespace.block_bytes[0]

    @property
    def blocks(self) -> int:
        """Blocks that the requests ask for, each counted every time."""
        return sum(len(request.hash_ids) for request in self.requests)

    def node(self, node_id: str) -> dict[str, Any]:
        """Return the configuration of one of the nodes."""
        tiers = [
            {
                "name": key.tier,
                "medium": key.tier.rstrip("0123456789"),
                "capacity": blocks * self.block_bytes,
                "slot_bytes": self.block_bytes,
            }
            for key, blocks in self.capacities.items()
            if key.node_id == node_id
        ]
        return {"node_id": node_id, "drain_timeout": 1, "tiers": tiers}


def make_plan(requests: Sequence[Request], namespace: Namespace) -> Plan:
    """Return a plan whose tiers hold the longest chain, but not all blocks of the requests."""
    longest = max(len(request.hash_ids) for request in requests)
    distinct = len({block for request in requests for block in request.hash_ids})
    shares = {GPU: 16, CPU: 5, REMOTE: 2}
    capacities = {key: max(longest, distinct // share) for key, share in shares.items()}
    return Plan(requests, namespace, capacities)
