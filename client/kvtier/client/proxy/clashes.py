"""Namespaces that nodes call by one name and describe differently."""

from collections.abc import Callable

from kvtier.v1.event_service_pb2 import WatchEventsResponse
from kvtier.v1.namespace_pb2 import Namespace
from kvtier.wire.errors import quote
from kvtier.wire.namespaces import differing_fields, fingerprint

# Descriptions that are remembered; of further ones nothing is told.
_MOST = 4096


class Clashes:
    """Tells once of each description that differs from the first one of its name.

    Nothing is lost by it: what the nodes hold of these namespaces is kept apart. But nobody finds
    at one node what another has, and whoever set the nodes up will want to know why.

    Args:
        tell: Told what differs, and at which nodes.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._first: dict[str, tuple[str, Namespace]] = {}
        self._known: set[bytes] = set()

    def hear(self, message: WatchEventsResponse) -> None:
        """Take in a message of a node's stream."""
        if message.HasField("namespace") and len(self._known) < _MOST:
            self._take(message.node_id, message.namespace)

    def _take(self, node: str, namespace: Namespace) -> None:
        print_ = fingerprint(namespace)
        if print_ in self._known:
            return
        self._known.add(print_)
        where, first = self._first.setdefault(namespace.name, (node, namespace))
        differences = differing_fields(first, namespace)
        if differences:
            told = "; ".join(
                f"{field} is {one!r} at {where}, {other!r} at {node}"
                for field, (one, other) in differences.items()
            )
            self._tell(
                f"nodes describe the namespace {quote(namespace.name)} differently: {told}. Their "
                "blocks are kept apart; use another name, or the same description"
            )
