"""What a proxy knows of namespaces, for telling what callers may do."""

from kvtier.client import BlockIndex
from kvtier.proxy.requests import described


class ProxyNames:
    """Knows the namespaces that the nodes have described; a proxy has no leases.

    Args:
        index: What all of them hold.
    """

    def __init__(self, index: BlockIndex) -> None:
        self._index = index

    def name_of(self, fingerprint: bytes) -> str:
        """Return the name of a namespace.

        Raises:
            KvtierError: INVALID_ARGUMENT or NOT_FOUND.
        """
        return described(self._index, fingerprint).description.name

    def leased(self, _lease_id: bytes) -> str | None:
        """Return the name of the namespace of an open lease: there is none."""
        return None
