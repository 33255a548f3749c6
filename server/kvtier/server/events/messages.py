"""The messages of a stream: WatchEventsResponse around bodies that are encoded already."""

from collections.abc import Iterable

from kvtier.server.events.source import TierInfo
from kvtier.v1.block_pb2 import Locality, Medium
from kvtier.v1.event_service_pb2 import Progress, Reset, ResetReason, State, Synced, TierState
from kvtier.wire.framing import bytes_field, bytes_field_header, fixed64_field, varint_field

_RESET, _SNAPSHOT, _SYNCED, _BATCHES, _PROGRESS, _STATE, _NAMESPACE = range(5, 12)
_PAGE_STORED = 1


class Messages:
    """Encodes the messages about one node's log.

    Everywhere `after` and `through` say that the message accounts for the sequences in
    (after, through].

    Args:
        node_id: The node's id.
        epoch: The life of its log.
    """

    def __init__(self, node_id: str, epoch: int) -> None:
        self._prefix = bytes_field(1, node_id.encode()) + fixed64_field(2, epoch)

    def reset(self, after: int, through: int, reason: ResetReason.ValueType) -> bytes:
        """Return a reset for a `ResetReason`."""
        return self._message(after, through, _RESET, (Reset(reason=reason).SerializeToString(),))

    def page(self, after: int, through: int, stored: Iterable[bytes]) -> bytes:
        """Return a page of encoded BlockStored messages, which may be none."""
        body = [
            piece
            for part in stored
            for piece in (bytes_field_header(_PAGE_STORED, len(part)), part)
        ]
        return self._message(after, through, _SNAPSHOT, body)

    def synced(self, after: int, through: int, blocks: int) -> bytes:
        """Return a synced with the number of readable blocks."""
        return self._message(after, through, _SYNCED, (Synced(blocks=blocks).SerializeToString(),))

    def batches(self, after: int, through: int, entries: Iterable[bytes]) -> bytes:
        """Return a message of batches, each encoded as one entry of EventBatches."""
        return self._message(after, through, _BATCHES, entries)

    def progress(self, after: int, through: int, head: int) -> bytes:
        """Return a progress with the log's head."""
        return self._message(after, through, _PROGRESS, (Progress(head=head).SerializeToString(),))

    def tier_state(self, at: int, tier: TierInfo) -> bytes:
        """Return the state of a tier."""
        state = State(
            tier=tier.name,
            tier_state=TierState.ValueType(tier.state),
            reason=tier.reason,
            medium=Medium.ValueType(tier.medium),
            locality=Locality.ValueType(tier.locality),
        )
        return self._message(at, at, _STATE, (state.SerializeToString(),))

    def namespace(self, at: int, description: bytes) -> bytes:
        """Return a serialized namespace description as a message."""
        return self._message(at, at, _NAMESPACE, (description,))

    def _message(self, after: int, through: int, field: int, body: Iterable[bytes]) -> bytes:
        pieces = list(body)
        return b"".join(
            (
                self._prefix,
                varint_field(3, after),
                varint_field(4, through),
                bytes_field_header(field, sum(map(len, pieces))),
                *pieces,
            )
        )
