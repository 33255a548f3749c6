"""The merged event stream, round by round."""

from collections import deque
from collections.abc import Sequence

from kvtier.cli.events import BLOCK_EVENTS, EventReader
from kvtier.cli.follow import Follower
from kvtier.cli.output import Record
from kvtier.v1.event_service_pb2 import WatchEventsResponse

_ROUNDS, _EVENTS = 3, 18


class Rounds:
    """Takes what the proxy hands over each time, and keeps a stretch worth showing.

    Attributes:
        follower: Follows the merged stream.
        count: Rounds that brought anything.
        out_of_order: Rounds in which a message of the primary came after another node's.
        stretch: A few rounds in a row, not too long to be shown, in the last of which both nodes
            removed and stored blocks: their numbers and block events. Empty until there are any.
    """

    def __init__(self, primary: str) -> None:
        self.follower = Follower()
        self.count = 0
        self.out_of_order = 0
        self.stretch: list[tuple[int, list[Record]]] = []
        self._primary = primary
        self._reader = EventReader()
        self._latest: deque[tuple[int, list[Record]]] = deque(maxlen=_ROUNDS)

    def take(self, messages: Sequence[WatchEventsResponse]) -> None:
        """Take one round."""
        if not messages:
            return
        self.count += 1
        events = []
        for message in messages:
            self.follower.apply(message)
            told = (record for group in self._reader.read(message) for record in group)
            events += [record for record in told if record["event"] in BLOCK_EVENTS]
        # A source's first message may come before its node's id is known.
        sources = [message.node_id for message in messages if message.node_id]
        own = sources.count(self._primary)
        self.out_of_order += sources[:own] != [self._primary] * own
        self._keep(events)

    def _keep(self, events: list[Record]) -> None:
        if events:
            self._latest.append((self.count, events))
        shown = sum(len(round_events) for _, round_events in self._latest)
        if shown <= _EVENTS and self._tells_all(events):
            self.stretch = list(self._latest)

    def _tells_all(self, events: Sequence[Record]) -> bool:
        """Whether both nodes removed and stored blocks."""
        kinds = {(event["node_id"] == self._primary, event["event"]) for event in events}
        return len(kinds - {(True, "cleared"), (False, "cleared")}) == 4
