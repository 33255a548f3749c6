"""The nodes behind a proxy, as what only reads sees them."""

from collections.abc import Iterator
from typing import Protocol

from kvtier.client import NodeClient
from kvtier.v1.event_service_pb2 import SourceState

_BETWEEN = "/"


class Member(Protocol):
    """An endpoint that a proxy follows: a node, or a proxy over several."""

    @property
    def client(self) -> NodeClient:
        """Its client."""
        ...

    @property
    def endpoint(self) -> str:
        """Its address."""
        ...

    @property
    def node_ids(self) -> list[str]:
        """The nodes behind it, in order, as far as they were heard of."""
        ...

    def state(self, node_id: str = "") -> SourceState.ValueType:
        """Return the state of a node behind it, or of the endpoint."""
        ...

    def reason(self, node_id: str = "") -> str:
        """Return why that is its state."""
        ...

    @property
    def down(self) -> bool:
        """Whether nothing behind it is in reach."""
        ...


class Members(Protocol):
    """Whom a proxy follows: iterate over them for the primary, then the secondaries in order."""

    @property
    def primary(self) -> Member:
        """The node that the proxy is local to."""
        ...

    def __iter__(self) -> Iterator[Member]: ...

    def trusts(self, node_id: str) -> bool:
        """Tell whether a node is in reach, and what the index says of it is exact."""
        ...


def full_name(node_id: str, tier: str) -> str:
    """Return how a proxy names a tier; a proxy behind it has named its own so already."""
    return tier if _BETWEEN in tier else f"{node_id}{_BETWEEN}{tier}"


def node_of(full: str) -> str:
    """Return the node in the full name of a tier; empty when there is none."""
    return full.partition(_BETWEEN)[0] if _BETWEEN in full else ""


def own_name(full: str) -> str:
    """Return how its node names a tier."""
    return full.partition(_BETWEEN)[2]
