"""The node's event log: one ring of encoded batches, which followers read by position."""

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from kvtier.server.events.bell import Bell
from kvtier.server.events.counts import BlockCounts, Change
from kvtier.server.events.encode import encode_batch
from kvtier.server.events.parts import Part
from kvtier.wire.framing import bytes_field_header

# Batches after which a reader gives the loop back.
READ_AT_MOST: Final = 4096

Span: TypeAlias = tuple[int, int, bytes, int, int]


class Lagged(Exception):  # noqa: N818 - told to the follower, not an error of ours
    """The log no longer holds the batch after the given position."""


class Entry(NamedTuple):
    """One batch, encoded once for all followers.

    Attributes:
        sequence: The batch's sequence.
        basic: The batch in the BASIC view, as one entry of EventBatches.
        full: The same in the FULL view; the same object where there are no token ids.
        spans: For each part, in order: tier, medium, namespace, and the bytes that it takes in
            `basic` and in `full`. Plain tuples, which the garbage collector need not visit.
        changes: By how many blocks the batch changed which tier and namespace.
    """

    sequence: int
    basic: bytes
    full: bytes
    spans: tuple[Span, ...]
    changes: tuple[Change, ...]

    @property
    def size(self) -> int:
        """Bytes held."""
        return len(self.basic) + (0 if self.full is self.basic else len(self.full))


_NOTHING = Entry(0, b"", b"", (), ())


class EventLog:
    """The newest batches of a node, bounded by count and by bytes.

    Appending never waits for a follower, and costs the same however many there are. All methods
    belong to one event loop.

    Args:
        epoch: Random and not 0: tells this log from the node's earlier and later ones.
        max_batches: Most batches held.
        max_bytes: Most encoded bytes held; a larger batch is held alone.

    Attributes:
        epoch: As given.
        head: The newest batch's sequence; 0 before the first.
        oldest: The lowest position from which a follower can still go on.
        held_bytes: Encoded bytes held now.
    """

    def __init__(self, *, epoch: int, max_batches: int, max_bytes: int) -> None:
        assert epoch
        assert max_batches > 0
        self.epoch = epoch
        self.head = 0
        self.oldest = 0
        self.held_bytes = 0
        self._max_bytes = max_bytes
        self._ring = [_NOTHING] * max_batches
        self._bell = Bell()
        self._counts = BlockCounts()

    def append(self, parts: Sequence[Part]) -> int:
        """Add one batch and wake whoever waits for it.

        Args:
            parts: At least one; clears before removals before stores.

        Returns:
            The batch's sequence.
        """
        assert parts
        entry = _encode(self.head + 1, parts, self._counts)
        if self.head - self.oldest == len(self._ring):
            self._drop_oldest()
        self.head = entry.sequence
        self.held_bytes += entry.size
        self._ring[entry.sequence % len(self._ring)] = entry
        while self.held_bytes > self._max_bytes and self.head - self.oldest > 1:
            self._drop_oldest()
        self._bell.ring()
        return entry.sequence

    def read(self, after: int, through: int) -> list[Entry]:
        """Return the batches in (after, through], which is at most the head.

        Raises:
            Lagged: When the first of them is held no more.
        """
        if after < self.oldest:
            raise Lagged(after)
        size = len(self._ring)
        first, last = (after + 1) % size, through % size
        if after == through:
            return []
        if first <= last:
            return self._ring[first : last + 1]
        return self._ring[first:] + self._ring[: last + 1]

    async def wait(self, after: int, seconds: float) -> None:
        """Return once the head is beyond a position, or after a time. May return early.

        Args:
            after: The position.
            seconds: Longest wait.
        """
        if self.head <= after and seconds > 0:
            await self._bell.wait(seconds)

    def wake(self) -> None:
        """Wake whoever waits, for another reason than a batch."""
        self._bell.ring()

    def _drop_oldest(self) -> None:
        self.oldest += 1
        place = self.oldest % len(self._ring)
        self.held_bytes -= self._ring[place].size
        self._ring[place] = _NOTHING


def _encode(sequence: int, parts: Sequence[Part], counts: BlockCounts) -> Entry:
    basic: list[bytes] = []
    full: list[bytes] = []
    spans: list[Span] = []
    changes: list[Change] = []
    differ = False
    last = 0
    for part in parts:
        assert part.field >= last
        last = part.field
        tagged = bytes_field_header(part.field, len(part.basic)) + part.basic
        tagged_full = tagged
        if part.full is not part.basic:
            differ = True
            tagged_full = bytes_field_header(part.field, len(part.full)) + part.full
        basic.append(tagged)
        full.append(tagged_full)
        spans.append((part.tier, part.medium, part.namespace, len(tagged), len(tagged_full)))
        changes += counts.apply(part)
    encoded = encode_batch(sequence, basic)
    encoded_full = encode_batch(sequence, full) if differ else encoded
    return Entry(sequence, encoded, encoded_full, tuple(spans), tuple(changes))
