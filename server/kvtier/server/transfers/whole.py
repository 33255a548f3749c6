"""Writing many small blocks that come whole in one message, without a step for each piece."""

from collections.abc import Sequence
from itertools import pairwise

from xxhash import xxh3_64_intdigest

from kvtier.server.leases import Lease
from kvtier.server.tiers.columns import gather
from kvtier.server.tiers.table import PENDING
from kvtier.v1.result_pb2 import WRITE_RESULT_CORRUPT, WRITE_RESULT_WRITTEN, WriteResult
from kvtier.wire.chunks import Chunk


def count_whole(message: Chunk, block_bytes: Sequence[int]) -> int:
    """Return how many whole blocks of one size a message brings; 0 when it brings anything else."""
    first, data = message.block_index, message.data
    if not data or message.offset or first >= len(block_bytes):
        return 0
    size = block_bytes[first]
    count, rest = divmod(len(data), size)
    alike = block_bytes[first : first + count].count(size) == count == len(message.checksums)
    return count if alike and not rest else 0


def write_whole(
    lease: Lease, message: Chunk, count: int
) -> dict[int, WriteResult.ValueType] | None:
    """Write whole blocks; return what became of each that the lease holds, by place.

    Returns:
        None, with nothing done, when a block is not waiting to be written from its start.
    """
    tier, first = lease.tier, message.block_index
    places = [place for place in range(first, first + count) if place in lease.slots]
    slots = list(map(lease.slots.__getitem__, places))
    if not slots:
        return {}
    if gather(slots)(tier.table.state).count(PENDING) < len(slots) or lease.writing:
        return None
    size, view = lease.block_bytes[first], memoryview(message.data)
    blocks = [view[(place - first) * size : (place - first + 1) * size] for place in places]
    told = gather([place - first for place in places])(message.checksums)
    good = [
        xxh3_64_intdigest(block) == checksum for block, checksum in zip(blocks, told, strict=True)
    ]
    for begin, end in _runs(slots, places, joined=size == tier.slot_bytes):
        start = (places[begin] - first) * size
        tier.arena.write(tier.position_of(slots[begin]), view[start : start + (end - begin) * size])
    if all(good):
        tier.mark_written(slots, told)
        return dict.fromkeys(places, WRITE_RESULT_WRITTEN)
    right = [i for i, fits in enumerate(good) if fits]
    tier.mark_written([slots[i] for i in right], [told[i] for i in right])
    return {
        place: WRITE_RESULT_WRITTEN if fits else WRITE_RESULT_CORRUPT
        for place, fits in zip(places, good, strict=True)
    }


def _runs(slots: Sequence[int], places: Sequence[int], *, joined: bool) -> list[tuple[int, int]]:
    """Cut blocks into runs that lie side by side in the message and in the store."""
    cuts = [
        i
        for i in range(1, len(slots))
        if not joined or slots[i] != slots[i - 1] + 1 or places[i] != places[i - 1] + 1
    ]
    return list(pairwise([0, *cuts, len(slots)]))
