"""Recording which blocks events tell of, while somebody wants to know."""

from collections.abc import Iterator
from contextlib import contextmanager

from kvtier.cli.checking.difference import Touched
from kvtier.cli.described import Described
from kvtier.client import BlockKey
from kvtier.v1.event_service_pb2 import BlockRemoved, BlockStored, WatchEventsResponse


class Journal:
    """Takes every message, and keeps what it tells of only while recording.

    Args:
        described: The namespaces that the same messages describe.
    """

    def __init__(self, described: Described) -> None:
        self._described = described
        self._node_id = ""
        self._touched: Touched | None = None

    @contextmanager
    def recording(self, node_id: str) -> Iterator[Touched]:
        """Record what is told of a node while the block runs; one recording at a time."""
        assert self._touched is None
        self._node_id, self._touched = node_id, Touched()
        try:
            yield self._touched
        finally:
            self._touched = None

    def note(self, message: WatchEventsResponse) -> None:
        """Take the next message.

        Raises:
            CommandError: When its hashes cannot be read.
        """
        touched = self._touched
        if touched is None or message.node_id != self._node_id:
            return
        if message.WhichOneof("kind") == "reset":
            touched.restarted = True
        for batch in message.batches.batches:
            for cleared in batch.cleared:
                touched.clear(cleared.tier, cleared.namespace)
            for removed in batch.removed:
                touched.add(removed.tier, self._keys(removed))
            for stored in batch.stored:
                touched.add(stored.tier, self._keys(stored))

    def _keys(self, event: BlockRemoved | BlockStored) -> Iterator[BlockKey]:
        hashes = self._described.split(self._node_id, event.namespace, event.block_hashes)
        for block_hash in hashes:
            yield BlockKey(event.namespace, event.group, event.scope, block_hash)
