"""Writing blocks into the slots of a store lease."""

from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import NamedTuple

from kvtier.server.leases import Lease, Leases
from kvtier.server.tiers.table import PENDING, WRITTEN
from kvtier.server.tiers.tier import Tier
from kvtier.server.transfers.memory_sink import MemorySink
from kvtier.server.transfers.pieces import Piece, cut
from kvtier.server.transfers.shelf_sink import ShelfSink
from kvtier.server.transfers.sink import Sink, UnderWay, Verdicts
from kvtier.server.transfers.whole import count_whole, write_whole
from kvtier.v1.result_pb2 import WRITE_RESULT_ABORTED, WRITE_RESULT_WRITTEN, WriteResult
from kvtier.wire.chunks import Chunk
from kvtier.wire.errors import KvtierError, aborted, invalid

Results = dict[int, WriteResult.ValueType]

# What a stock client may send in one message.
MOST_DATA = 4 << 20


class Saving(NamedTuple):
    """Blocks that are being written.

    Attributes:
        verdicts: What becomes of them.
        settle: Takes the verdicts, and returns what became of each block that ended, by place; it
            raises ABORTED when the lease has ended. Whoever makes blocks readable does so before
            the event loop goes on: until then a lease may end, and a block be deleted.
    """

    verdicts: Awaitable[Verdicts]
    settle: Callable[[Verdicts], Results]


class BlockWriter:
    """Writes the pieces of one call; a block is written only when whole and equal to its checksum.

    Bytes of blocks that the lease does not hold are passed over.

    Args:
        leases: The node's leases.
        lease: The store lease.
        threads: Where large pieces are copied.
    """

    def __init__(self, leases: Leases, lease: Lease, threads: Executor) -> None:
        self._leases = leases
        self._lease = lease
        self._sink = _open_sink(lease, threads)
        self._reached: dict[int, int] = {}

    @property
    def ahead_bytes(self) -> int:
        """What a message keeps in memory until it is done; 0 when no other may come before."""
        return self._sink.ahead_bytes

    @property
    def under_way(self) -> UnderWay:
        """What threads are doing for it."""
        return self._sink.under_way

    def begin(self, message: Chunk) -> Results | Saving:
        """Begin to write what a message brings.

        Returns:
            What became of the blocks that ended, by place, or what is to be waited for to know
            that.

        Raises:
            KvtierError: As `cut` does; ABORTED when another call writes a block, INVALID_ARGUMENT
                when a piece does not go on where the one before it ended.
        """
        lease = self._lease
        count = count_whole(message, lease.block_bytes)
        if count and len(message.data) <= self._sink.inline_bytes:
            results = write_whole(lease, message, count)
            if results is not None:
                return results
        return self._begin(cut(message, lease.block_bytes))

    def _begin(self, pieces: Sequence[Piece]) -> Results | Saving:
        results: Results = {}
        wanted = [piece for piece in pieces if self._wants(piece, results)]
        verdicts = self._sink.put([self._lease.slots[piece.place] for piece in wanted], wanted)
        if isinstance(verdicts, list):
            return self._settle(wanted, verdicts, results)
        return Saving(verdicts, partial(self._finish, wanted, results))

    def _finish(self, pieces: Sequence[Piece], results: Results, verdicts: Verdicts) -> Results:
        self.check_open()
        return self._settle(pieces, verdicts, results)

    def check_open(self) -> None:
        """Raise ABORTED when the lease has ended."""
        if self._leases.get(self._lease.id) is not self._lease:
            raise lease_ended(self._lease)

    def close(self) -> None:
        """Let other calls write the blocks that this one has begun, once no thread is at them."""
        self.under_way.then(lambda: self._lease.writing.difference_update(self._reached))

    def _wants(self, piece: Piece, results: Results) -> bool:
        place, lease = piece.place, self._lease
        slot = lease.slots.get(place)
        if slot is None:
            return False
        state = lease.tier.table.state[slot]
        if state != PENDING:
            if piece.checksum is not None:
                results[place] = WRITE_RESULT_WRITTEN if state == WRITTEN else WRITE_RESULT_ABORTED
            return False
        if piece.offset != self._reached.get(place, 0):
            raise invalid(
                f"block {place} goes on at offset {piece.offset}; it must go on at "
                f"{self._reached.get(place, 0)}"
            )
        if not piece.offset and place in lease.writing:
            raise aborted(f"block {place} of lease {lease.id.hex()} is written by another call")
        lease.writing.add(place)
        self._reached[place] = piece.offset + len(piece.data)
        return True

    def _settle(self, pieces: Sequence[Piece], verdicts: Verdicts, results: Results) -> Results:
        tier, slots, state = self._lease.tier, self._lease.slots, self._lease.tier.table.state
        written: list[Piece] = []
        for piece, verdict in zip(pieces, verdicts, strict=True):
            if piece.checksum is None:
                continue
            self._reached.pop(piece.place, None)
            self._lease.writing.discard(piece.place)
            if state[slots[piece.place]] != PENDING:
                results[piece.place] = WRITE_RESULT_ABORTED
                continue
            results[piece.place] = verdict
            if verdict == WRITE_RESULT_WRITTEN:
                written.append(piece)
        tier.mark_written(
            [slots[piece.place] for piece in written],
            [piece.checksum or 0 for piece in written],
        )
        return results


def lease_ended(lease: Lease) -> KvtierError:
    """Return the error of a write whose lease has ended."""
    return aborted(f"lease {lease.id.hex()} ended while its blocks were written")


def memory_of_write(tier: Tier, block_bytes: Sequence[int], message_bytes: int = MOST_DATA) -> int:
    """Return the bytes that a write needs in memory, what it reads ahead apart."""
    return message_bytes + (max(block_bytes, default=0) if tier.keeping else 0)


def _open_sink(lease: Lease, threads: Executor) -> Sink:
    tier = lease.tier
    if tier.keeping is None:
        return MemorySink(tier, threads)
    return ShelfSink(tier, tier.keeping, lease.block_bytes, MOST_DATA)
