"""How far sources have come, and waiting until one has come far enough."""

import asyncio
from collections import Counter

from kvtier.cli.exit import CommandError
from kvtier.v1.block_pb2 import Position
from kvtier.v1.event_service_pb2 import SourceState, TierState, WatchEventsResponse

_PATIENCE = 30.0
_LOST = {SourceState.SOURCE_STATE_SUSPECT, SourceState.SOURCE_STATE_DOWN}


class Arrival:
    """Follows the positions that messages account for, and what sources say of their tiers.

    Attributes:
        resets: Times that each source began anew.
    """

    def __init__(self) -> None:
        self.resets: Counter[str] = Counter()
        self._positions: dict[str, Position] = {}
        self._tier_states: dict[tuple[str, str], TierState.ValueType] = {}
        self._complaint = ""
        self._moved = asyncio.Event()
        self._failure: Exception | None = None

    def note(self, message: WatchEventsResponse) -> None:
        """Take the next message of a source, after its contents were taken in."""
        node_id, kind = message.node_id, message.WhichOneof("kind")
        if kind == "reset":
            self.resets[node_id] += 1
            self._positions.pop(node_id, None)
        elif kind == "synced" or (kind in {"batches", "progress"} and self.synced(node_id)):
            here = Position(epoch=message.epoch, sequence=message.through)
            self._positions[node_id] = here
        elif kind == "state" and not message.state.tier:
            lost = message.state.source in _LOST
            self._complaint = message.state.reason if lost else self._complaint
        elif kind == "state":
            self._tier_states[node_id, message.state.tier] = message.state.tier_state
        self._moved.set()

    def fail(self, error: Exception) -> None:
        """Take note that no more messages will come, and why."""
        self._failure = error
        self._moved.set()

    def synced(self, node_id: str) -> bool:
        """Return whether the view of a source is complete."""
        return node_id in self._positions

    def position(self, node_id: str) -> Position | None:
        """Return where a source is; None while its view is not complete."""
        return self._positions.get(node_id)

    def is_silent(self, node_id: str, tier: str) -> bool:
        """Return whether a source said that it keeps no events of a tier."""
        return self._tier_states.get((node_id, tier)) == TierState.TIER_STATE_SILENT

    async def reach(self, node_id: str, head: Position | None = None) -> None:
        """Wait until a source is in sync and has come to a position, or has begun anew.

        Raises:
            CommandError: When it does not get there.
            Exception: What `fail` was told.
        """
        resets = self.resets[node_id]
        try:
            async with asyncio.timeout(_PATIENCE):
                while not self._arrived(node_id, head, resets):
                    if self._failure is not None:
                        raise self._failure
                    self._moved.clear()
                    await self._moved.wait()
        except TimeoutError:
            sequence = head.sequence if head is not None else 0
            what = f"its events did not come to position {sequence} within {_PATIENCE:g} s"
            raise CommandError(node_id, what, self._complaint) from None

    def _arrived(self, node_id: str, head: Position | None, resets: int) -> bool:
        here = self._positions.get(node_id)
        if here is None:
            return False
        if head is None or self.resets[node_id] > resets:
            return True
        return here.epoch == head.epoch and here.sequence >= head.sequence
