"""What the groups of calls of a `NodeClient` stand on."""

from collections.abc import Sequence

from kvtier.client.arguments import build, duration
from kvtier.client.connection import Connection
from kvtier.v1.block_pb2 import BlockRun
from kvtier.v1.tier_service_pb2 import (
    PrepareStoreRequest,
)

LEASE_ID_BYTES = 16


class Calls:
    """Calls to one node, over its connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def _lease_id(self, given: bytes | None) -> bytes:
        return self._connection.random_bytes(LEASE_ID_BYTES) if given is None else given

    def _offer(
        self,
        tier: str,
        namespace: bytes,
        runs: Sequence[BlockRun],
        *,
        lease_id: bytes | None,
        ttl: float | None,
        request_id: str,
    ) -> PrepareStoreRequest:
        return build(
            PrepareStoreRequest,
            tier=tier,
            namespace=namespace,
            runs=runs,
            lease_id=self._lease_id(lease_id),
            owner=self._connection.owner,
            ttl=duration("ttl", ttl),
            request_id=request_id,
        )
