"""Where one follower is in the log of one node."""

from kvtier.v1.block_pb2 import Position
from kvtier.v1.event_service_pb2 import SourceState


class Standing:
    """What a follower was told of a node.

    Args:
        position: Where it resumes; None when it starts over.

    Attributes:
        view: The position at which its view is complete; None when it is not.
        synced: It was told so on this stream.
        confirmed: The node itself said so, or goes on from there, on a stream that is open.
        place: The epoch and the sequence that its last message accounted for.
        believed: The state of the node, as far as it knows.
    """

    def __init__(self, position: Position | None) -> None:
        self.view = position
        self.synced = self.confirmed = False
        self.place = (position.epoch, position.sequence) if position is not None else (0, 0)
        self.believed = SourceState.SOURCE_STATE_UNSPECIFIED

    def note_reset(self, epoch: int, through: int) -> None:
        """Note that it was told to forget the node."""
        self.view, self.synced, self.confirmed = None, False, False
        self.place = (epoch, through)
        self.believed = SourceState.SOURCE_STATE_SNAPSHOT

    def note_synced(self) -> None:
        """Note that it was told that its view is complete."""
        self.synced = True
        self.believed = SourceState.SOURCE_STATE_LIVE

    def move(self, epoch: int, through: int) -> None:
        """Note that a message accounted for everything up to a position."""
        self.place = (epoch, through)
        if self.view is not None or self.synced:
            self.view = Position(epoch=epoch, sequence=through)
