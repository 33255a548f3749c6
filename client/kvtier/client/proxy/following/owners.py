"""Who speaks for which node."""

from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from kvtier.client.index import BlockIndex
from kvtier.v1.event_service_pb2 import WatchEventsResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvtier.client.proxy.following.feed import Feed
    from kvtier.client.proxy.following.merge import SourceBuffer


class Owners:
    """Which feed speaks for which node id, over all feeds of a proxy, and who hears them.

    Args:
        index: What the feeds keep up to date; None for none.

    Attributes:
        hear: Called with each message once the index has it.
    """

    def __init__(self, index: BlockIndex | None) -> None:
        self.hear: Callable[[WatchEventsResponse], None] | None = None
        self._index = index
        self._feeds: dict[str, Feed] = {}
        # Who was ever spoken for, and where it waits to be taken what was said last.
        self._known: set[str] = set()
        self._buffers: WeakValueDictionary[str, SourceBuffer] = WeakValueDictionary()

    def get(self, node_id: str) -> "Feed | None":
        """Return who speaks for a node."""
        return self._feeds.get(node_id)

    def take(self, node_id: str, feed: "Feed") -> bool:
        """Let a feed speak for a node, and tell whether one did before.

        What waits of the node in the buffer of another one is dropped, for it could be taken after
        what this one says: that has to begin with a reset.
        """
        before = self._buffers.get(node_id)
        if before is not None and before is not feed.buffer:
            before.drop(node_id)
        was_known = node_id in self._known
        self._known.add(node_id)
        self._buffers[node_id] = feed.buffer
        self._feeds[node_id] = feed
        if self._index is not None:
            self._index.welcome(node_id)
        return was_known

    def leave(self, node_id: str) -> None:
        """Forget a node that nobody speaks for any more."""
        del self._feeds[node_id]
        if self._index is not None:
            self._index.forget(node_id)

    def apply(self, message: WatchEventsResponse) -> bool:
        """Mirror a message, and tell whether all of it could be applied."""
        if self._index is None:
            return True
        before = self._index.bad_events
        self._index.apply(message)
        if self.hear is not None:
            self.hear(message)
        return self._index.bad_events == before
