"""The way from a ring to a follower."""

import asyncio

from kvtier.proxy.relay import Relay
from kvtier.proxy.ring import Ring
from kvtier.server.events.filter import EventFilter
from kvtier.server.events.line import Line, Send
from kvtier.server.events.log import Lagged


class RingLine(Line):
    """Tells a follower what a ring has; one that is over sends the follower elsewhere.

    Nothing vouches for a node that is out of touch: then there are no heartbeats.

    Args:
        relay: The node.
        ring: Its ring.
        wanted: The follower's filter.
        send: Sends one message.
    """

    def __init__(self, relay: Relay, ring: Ring, wanted: EventFilter, send: Send) -> None:
        super().__init__(ring, ring.messages, wanted, send, patience=0.0)
        self._relay = relay
        self._ring = ring

    @property
    def over(self) -> bool:
        """Whether nothing is added to the ring any more."""
        return self._ring.over

    async def introduce_changes(self, cursor: int) -> None:
        """Send the states that changed, once the follower has what went before.

        Args:
            cursor: The position up to which it has everything.

        Raises:
            Lagged: When the ring is over, and the follower has everything of it.
        """
        await super().introduce_changes(cursor)
        if self._ring.over and cursor == self._ring.log.head:
            raise Lagged(cursor)

    async def progress(self, through: int) -> None:
        """Account for everything up to a position, while the node is in touch."""
        if self._relay.in_touch:
            await super().progress(through)
        else:
            self.last_progress = asyncio.get_running_loop().time()
