"""How the messages of followers are timed and cut."""

from dataclasses import dataclass
from typing import Self

from kvtier.server.config import EventsConfig


@dataclass(frozen=True, slots=True)
class Pace:
    """How a follower's messages are timed and cut.

    Attributes:
        heartbeat_interval: Longest time without a message, in seconds.
        linger: Shortest time from message to message while the node is busy, in seconds. The
            first message after a quiet time goes at once.
        message_bytes: Size at which a message is full.
        stall_timeout: How long a follower may take no message, in seconds.
        snapshot_stall_timeout: The same while it is sent a snapshot, in seconds.
    """

    heartbeat_interval: float = 1.0
    linger: float = 0.002
    message_bytes: int = 256 << 10
    stall_timeout: float = 60.0
    snapshot_stall_timeout: float = 10.0

    @classmethod
    def of(cls, events: EventsConfig) -> Self:
        """Return the pace that settings give."""
        return cls(
            heartbeat_interval=events.heartbeat_interval,
            linger=events.linger,
            message_bytes=events.message_bytes,
            stall_timeout=events.stall_timeout,
            snapshot_stall_timeout=events.snapshot_stall_timeout,
        )
