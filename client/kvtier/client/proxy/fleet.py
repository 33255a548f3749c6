"""What storing, loading and calling everybody need of the members of a proxy."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from kvtier.client.arguments import bad_argument
from kvtier.client.node import NodeClient
from kvtier.wire.errors import quote


class Endpoint(Protocol):
    """An endpoint that a proxy follows: a node, or a proxy over several nodes."""

    @property
    def client(self) -> NodeClient:
        """Its client."""

    @property
    def endpoint(self) -> str:
        """Its address."""

    @property
    def node_ids(self) -> Sequence[str]:
        """The nodes behind it that were heard of, in order; one for a node."""

    @property
    def down(self) -> bool:
        """Whether nothing behind it is in reach."""

    def reason(self, node_id: str = "") -> str:
        """Return why a node, the first when none is named, is in its state."""


class Fleet(Protocol):
    """The primary of a proxy and its secondaries, as they are now."""

    @property
    def primary(self) -> Endpoint:
        """The node that the proxy is local to."""

    @property
    def secondaries(self) -> Sequence[Endpoint]:
        """Those behind it, in order."""

    def trusts(self, node_id: str) -> bool:
        """Tell whether a node is in reach, and what the index says of it is exact."""


def node_of(endpoint: Endpoint) -> str:
    """Return the id of the node behind an endpoint; empty when it is not one node, as of now."""
    ids = endpoint.node_ids
    return ids[0] if len(ids) == 1 else ""


def names_of(endpoint: Endpoint) -> tuple[str, ...]:
    """Return what an endpoint may be called by: its address, and the ids of its nodes."""
    return endpoint.endpoint, *endpoint.node_ids


def check_names(setting: str, names: Iterable[str], known: Sequence[Endpoint], kind: str) -> None:
    """Check that each name is one of some endpoints.

    Args:
        setting: Where the names were given.
        names: The names.
        known: The endpoints.
        kind: What such an endpoint is called.

    Raises:
        InvalidArgumentError: When one is not; it is named, and so is who is there.
    """
    there = {name for each in known for name in names_of(each)}
    for name in names:
        if name not in there:
            raise bad_argument(
                f"{setting} names {quote(name)}, which is no {kind}'s address or node id; there "
                f"are {', '.join(each.endpoint for each in known) or 'none'}"
            )
