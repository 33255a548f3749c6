"""The namespaces that event streams describe, and the hashes that are read by them."""

from typing import NoReturn

from kvtier.cli.exit import CommandError
from kvtier.v1.event_service_pb2 import BlockRemoved, BlockStored
from kvtier.v1.namespace_pb2 import Namespace
from kvtier.wire.hashes import split_hashes
from kvtier.wire.namespaces import MAX_HASH_WIDTH, MIN_HASH_WIDTH, fingerprint


class Described:
    """Parts packed hashes by the width that the streams' own namespace messages tell.

    A stream that breaks its grammar is an error that names the node: what it tells cannot be read.
    """

    def __init__(self) -> None:
        self._namespaces: dict[bytes, Namespace] = {}

    def note(self, node_id: str, description: Namespace) -> None:
        """Take in a description.

        Raises:
            CommandError: When hashes cannot have the width that it tells.
        """
        width = description.hash_width
        if not MIN_HASH_WIDTH <= width <= MAX_HASH_WIDTH:
            broken(node_id, f"namespace {description.name[:40]!r} has hashes of {width} bytes")
        self._namespaces[fingerprint(description)] = description

    def name(self, namespace: bytes) -> str:
        """Return the name of a namespace by its fingerprint; empty when it was not described."""
        known = self._namespaces.get(namespace)
        return known.name if known is not None else ""

    def sizes(self, node_id: str, namespace: bytes) -> tuple[int, int]:
        """Return the bytes of a namespace's hashes, and the tokens of its blocks.

        Raises:
            CommandError: When the namespace was not described.
        """
        if namespace not in self._namespaces:
            known = namespace.hex()[:16] or "without a fingerprint"
            broken(node_id, f"an event came before its namespace {known} was described")
        description = self._namespaces[namespace]
        return description.hash_width, description.tokens_per_block

    def split(self, node_id: str, namespace: bytes, packed: bytes) -> tuple[bytes, ...]:
        """Return the hashes that an event carries one after the other.

        Args:
            node_id: The node whose event it is.
            namespace: The fingerprint.
            packed: The hashes.

        Raises:
            CommandError: When the namespace was not described, or the hashes are not of its width.
        """
        try:
            return split_hashes(packed, self.sizes(node_id, namespace)[0])
        except ValueError as error:
            broken(node_id, str(error))

    def count(self, node_id: str, event: BlockStored | BlockRemoved) -> int:
        """Return the number of blocks that an event is about.

        Raises:
            CommandError: When the namespace was not described, or the hashes are not of its width.
        """
        width, _ = self.sizes(node_id, event.namespace)
        blocks, rest = divmod(len(event.block_hashes), width)
        if rest:
            what = f"{len(event.block_hashes)} bytes of hashes are no multiple of the width {width}"
            broken(node_id, what)
        return blocks


def broken(node_id: str, problem: str) -> NoReturn:
    """Refuse a stream that breaks its grammar.

    Raises:
        CommandError: Always; it names the node.
    """
    what = f"its event stream cannot be read: {problem}"
    todo = "compare its version, in kvtier get nodes, with that of kvtier version"
    raise CommandError(node_id or "a node without an id", what, todo) from None
