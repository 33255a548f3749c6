"""The node's event log: one ring of encoded batches, which followers read by position."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

from kvtier.server.events.bell import Bell
from kvtier.server.events.counts import BlockCounts
from kvtier.server.events.encode import encode_batch
from kvtier.server.events.parts import CLEARED, Part
from kvtier.wire.framing import bytes_field_header

# Batches after which a reader gives the loop back.
READ_AT_MOST: Final = 4096

Span: TypeAlias = tuple[int, int, bytes, int, int, int]


class Lagged(Exception):  # noqa: N818 - told to the follower, not an error of ours
    """The log no longer holds the batch after the given position."""


class Entry(NamedTuple):
    """One batch, encoded once for all followers.

    Attributes:
        sequence: The batch's sequence.
        basic: The batch in the BASIC view, as one entry of EventBatches.
        full: The same in the FULL view; the same object where there are no token ids.
        spans: For each part, in order: tier, medium, namespace, the bytes that it takes in `basic`
            and in `full`, and by how many blocks it changed their number. A clear is followed by
            a span without bytes for each namespace of which it took blocks.
    """

    sequence: int
    basic: bytes
    full: bytes
    spans: tuple[Span, ...]


class EventLog:
    """The newest batches of a node, bounded by count and by bytes.

    Appending never waits for a follower, and costs the same however many there are. All methods
    belong to one event loop.

    Args:
        epoch: Random and not 0: tells this log from the node's earlier and later ones.
        max_batches: Most batches held.
        max_bytes: Most encoded bytes held; a larger batch is held alone.
        head: The sequence before the first batch; above 0 for a log that goes on with another's.

    Attributes:
        epoch: As given.
        head: The newest batch's sequence; as given before the first.
        oldest: The lowest position from which a follower can still go on.
        held_bytes: Encoded bytes held now.
        counts: How many blocks the batches speak of.
    """

    def __init__(self, *, epoch: int, max_batches: int, max_bytes: int, head: int = 0) -> None:
        assert epoch
        assert max_batches > 0
        self.epoch = epoch
        self.head = head
        self.oldest = head
        self.held_bytes = 0
        self._max_batches = max_batches
        self._max_bytes = max_bytes
        self._gathered: list[Part] | None = None
        self._bell = Bell()
        self.counts = BlockCounts()
        self._named: dict[bytes, int] = {}
        # A batch is a row of these columns, not an object: the garbage collector tracks nothing in
        # them, where it would have to walk the whole log.
        self._basic = [b""] * max_batches
        self._full = [b""] * max_batches
        self._spans: list[tuple[Span, ...]] = [()] * max_batches

    def append(self, parts: Sequence[Part]) -> int:
        """Add one batch and wake whoever waits for it.

        Args:
            parts: At least one; clears before removals before stores.

        Returns:
            The batch's sequence.
        """
        assert parts
        if self._gathered is not None:
            self._gathered += parts
            return self.head
        assert len(parts) == 1 or all(one.field <= two.field for one, two in pairwise(parts))
        if self.head - self.oldest == self._max_batches:
            self._drop_oldest()
        self.head += 1
        self.held_bytes += self._encode(parts)
        while self.held_bytes > self._max_bytes and self.head - self.oldest > 1:
            self._drop_oldest()
        self._bell.ring()
        return self.head

    @contextmanager
    def together(self) -> Iterator[None]:
        """Make one batch of all that is appended meanwhile, removals before stores.

        Nothing may wait inside, and what is gathered must fit one batch.
        """
        assert self._gathered is None
        parts: list[Part] = []
        self._gathered = parts
        try:
            yield
        finally:
            self._gathered = None
            if parts:
                self.append(sorted(parts, key=lambda part: part.field))

    def read(self, after: int, through: int) -> list[Entry]:
        """Return the batches in (after, through], which is at most the head.

        Raises:
            Lagged: When the first of them is held no more.
        """
        columns = (self._rows(c, after, through) for c in (self._basic, self._full, self._spans))
        return list(map(Entry, range(after + 1, through + 1), *columns))

    def read_whole(self, after: int, through: int, *, full: bool) -> list[bytes]:
        """Return the same batches in one view, each as one entry of EventBatches.

        Raises:
            Lagged: As `read`.
        """
        return self._rows(self._full if full else self._basic, after, through)

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

    def last_named(self, namespace: bytes) -> int:
        """Return the newest batch that names a namespace; 0 when none does."""
        return self._named.get(namespace, 0)

    def forget_name(self, namespace: bytes) -> None:
        """Forget what `last_named` says of a namespace that no batch held names any more."""
        self._named.pop(namespace, None)

    def trim(self, through: int) -> None:
        """Drop the batches up to a position, which is at most the head."""
        while self.oldest < through:
            self._drop_oldest()

    def _rows(self, column: list[Any], after: int, through: int) -> list[Any]:
        if after < self.oldest:
            raise Lagged(after)
        if after == through:
            return []
        first, end = (after + 1) % self._max_batches, through % self._max_batches + 1
        if first < end:
            return column[first:end]
        return column[first:] + column[:end]

    def _encode(self, parts: Sequence[Part]) -> int:
        """Encode the batch at the head, and return how many bytes it has."""
        basic: list[bytes] = []
        full: list[bytes] = []
        spans: list[Span] = []
        for part in parts:
            size = full_size = _add(basic, part.field, part.basic)
            if full or part.full is not part.basic:
                # The first that has token ids: what came before it is the same in both.
                full = full or basic[:-2]
                full_size = _add(full, part.field, part.full)
            spans += self._spans_of(part, size, full_size)
        row = self.head % self._max_batches
        whole = self._basic[row] = self._full[row] = encode_batch(self.head, basic)
        self._spans[row] = tuple(spans)
        if not full:
            return len(whole)
        whole_full = self._full[row] = encode_batch(self.head, full)
        return len(whole) + len(whole_full)

    def _spans_of(self, part: Part, basic_size: int, full_size: int) -> list[Span]:
        where = (part.tier, part.medium, part.namespace)
        self._named[part.namespace] = self.head
        if part.field != CLEARED:
            return [(*where, basic_size, full_size, self.counts.change(where, part))]
        gone = [(*place, 0, 0, -blocks) for place, blocks in self.counts.clear(part)]
        return [(*where, basic_size, full_size, 0), *gone]

    def _size(self, sequence: int) -> int:
        row = sequence % self._max_batches
        basic, full = self._basic[row], self._full[row]
        return len(basic) if full is basic else len(basic) + len(full)

    def _drop_oldest(self) -> None:
        self.oldest += 1
        self.held_bytes -= self._size(self.oldest)
        row = self.oldest % self._max_batches
        self._basic[row] = self._full[row] = b""
        self._spans[row] = ()


def _add(pieces: list[bytes], field: int, message: bytes) -> int:
    """Add a message and the tag before it, and return how long they are."""
    header = bytes_field_header(field, len(message))
    pieces += (header, message)
    return len(header) + len(message)
