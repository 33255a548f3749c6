"""The way to one follower, and what it has been told."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

from kvtier.server.events.feed import Delivery
from kvtier.server.events.filter import EventFilter
from kvtier.server.events.messages import Messages
from kvtier.server.events.source import LogSource, News, TierInfo
from kvtier.v1.event_service_pb2 import ResetReason

Send: TypeAlias = Callable[[bytes], Awaitable[None]]


class Line:
    """Sends one follower its messages, each accounting for what lies between it and the last.

    Args:
        source: The node that is followed.
        messages: Encodes messages about its log.
        wanted: The follower's filter.
        send: Sends one message; waits as long as the follower does not read.
        patience: How long one message may wait to be read, in seconds.

    Attributes:
        told: The position that the follower's last message accounted for.
        last_sent: When it was sent, in the loop's time.
        last_progress: When the follower last learned how far the log has come.
        patience: How long one message may wait to be read, in seconds; `Stall` sees to it.
        waits_since: Since when a message waits to be read, in the loop's time; None when none does.
    """

    def __init__(
        self,
        source: LogSource,
        messages: Messages,
        wanted: EventFilter,
        send: Send,
        patience: float,
    ) -> None:
        self._clock = asyncio.get_running_loop().time
        self.told = source.log.head
        self.last_sent = self.last_progress = self._clock()
        self.patience = patience
        self.waits_since: float | None = None
        self._source = source
        self._messages = messages
        self._wanted = wanted
        self._send = send
        self._introduced = self._state_changes = 0
        self._states: dict[int, TierInfo] = {}

    async def reset(self, reason: ResetReason.ValueType, through: int) -> None:
        """Tell the follower to forget everything."""
        await self._write(self._messages.reset(self.told, through, reason))
        self.told = through

    async def introduce(self) -> None:
        """Send the states of the tiers and the namespaces that pass."""
        self._introduced = 0
        self._states.clear()
        await self._introduce_states()
        await self.introduce_namespaces()

    async def introduce_namespaces(self) -> None:
        """Send the descriptions of namespaces that pass and are new since the last call."""
        while (news := self._news()).newest != self._introduced:
            self._introduced = news.newest
            for fingerprint, description in news.described:
                if self._wanted.passes_namespace(fingerprint):
                    await self._write(self._messages.namespace(self.told, description))

    async def introduce_changes(self, cursor: int) -> None:
        """Send the states that changed, once the follower has what went before.

        Args:
            cursor: The position up to which it has everything.
        """
        source = self._source
        while source.state_changes != self._state_changes and source.states_at <= cursor:
            await self._introduce_states()

    async def _introduce_states(self) -> None:
        self._state_changes = self._source.state_changes
        for tier in self._source.tier_infos():
            passes = self._wanted.passes_tier(tier.index, tier.medium)
            if passes and self._states.get(tier.index) != tier:
                self._states[tier.index] = tier
                await self._write(self._messages.tier_state(self.told, tier))

    def _news(self) -> News:
        return self._source.namespaces(self._introduced, self.told)

    async def page(self, stored: Iterable[bytes], through: int) -> None:
        """Send a page of encoded BlockStored messages that are exact at a position."""
        await self._write(self._messages.page(self.told, through, stored))
        self.told = through

    async def synced(self, through: int, blocks: int) -> None:
        """Tell the follower that its view is exact at a position."""
        await self._write(self._messages.synced(self.told, through, blocks))
        self.told = through
        self.last_progress = self.last_sent

    async def batches(self, delivery: Delivery) -> None:
        """Send the message that a feed made from `told` on."""
        assert delivery.message is not None
        await self._write(delivery.message)
        self.told = delivery.through

    async def progress(self, through: int) -> None:
        """Account for everything up to a position, and tell how far the log has come."""
        await self._write(self._messages.progress(self.told, through, self._source.log.head))
        self.told = through
        self.last_progress = self.last_sent

    async def _write(self, message: bytes) -> None:
        self.waits_since = self._clock()
        await self._send(message)
        self.waits_since = None
        self.last_sent = self._clock()
