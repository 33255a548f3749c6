"""What a node knows of namespaces, for telling what callers may do."""

from kvtier.server.node import Node


class NodeNames:
    """Knows the namespaces that are registered, and those of leases.

    Args:
        node: The node.
    """

    def __init__(self, node: Node) -> None:
        self._node = node

    def name_of(self, fingerprint: bytes) -> str:
        """Return the name of a namespace.

        Raises:
            KvtierError: INVALID_ARGUMENT or NOT_FOUND.
        """
        return self._node.registry.get(fingerprint).description.name

    def leased(self, lease_id: bytes) -> str | None:
        """Return the name of the namespace of an open lease; None when there is none such."""
        lease = self._node.leases.get(lease_id)
        return None if lease is None else lease.namespace.description.name
