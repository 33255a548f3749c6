"""Reading what is asked of a proxy: namespaces are those that the nodes have described."""

from kvtier.client import BlockIndex
from kvtier.server.tiers.spaces import NamespaceInfo
from kvtier.wire.errors import Reason, invalid, not_found, quote
from kvtier.wire.namespaces import FINGERPRINT_BYTES


def described(index: BlockIndex, namespace: bytes) -> NamespaceInfo:
    """Return a namespace by its fingerprint.

    Raises:
        KvtierError: INVALID_ARGUMENT when it is no fingerprint, NOT_FOUND when no node has
            described it.
    """
    if len(namespace) != FINGERPRINT_BYTES:
        raise invalid(
            f"namespace has {len(namespace)} bytes; it must be a fingerprint of "
            f"{FINGERPRINT_BYTES} bytes, as RegisterNamespace returns it"
        )
    description = index.namespaces().get(namespace)
    if description is None:
        raise not_found(
            f"no node behind this proxy has described namespace {quote(namespace, 16)}: register "
            "it at the node that is to hold its blocks",
            Reason.NAMESPACE_UNKNOWN,
        )
    return NamespaceInfo.of(namespace, description)
