"""Copying blocks from one store to another by the shortest way."""

from collections.abc import Iterator, Sequence

import numpy as np
from xxhash import xxh3_64_intdigest

from kvtier.server.stores.base import BlockStore, Bytes
from kvtier.server.stores.gpu import GpuStore

# Memory that a copy takes where neither store's bytes can be reached by the processor.
SCRATCH_BYTES = 8 << 20


def copy_slots(
    source: BlockStore,
    source_positions: Sequence[int],
    target: BlockStore,
    target_positions: Sequence[int],
    lengths: Sequence[int],
) -> list[int]:
    """Copy ranges of bytes between two stores, and return the XXH3-64 digest of each.

    It blocks, and is for a thread. The ranges of the target must not overlap each other nor those
    of the source. A digest is of bytes on the host that the target was filled from or with, so a
    block whose digest is not its checksum is corrupt in the target too.

    Args:
        source: Where the bytes are.
        source_positions: Where each range begins in the source, in bytes.
        target: Where they go.
        target_positions: Where each range begins in the target, in bytes.
        lengths: Length of each range in bytes.

    Raises:
        ValueError: When a range does not lie within its store, or a store is closed.
        OSError, RuntimeError: When a device fails; then no range may be taken as copied.
    """
    there = source.views(source_positions, lengths)
    if there is not None:
        target.write_many(target_positions, there)
        return [xxh3_64_intdigest(block.data) for block in there]
    here = target.views(target_positions, lengths)
    if here is not None:
        source.read_into(source_positions, here)
        return [xxh3_64_intdigest(block.data) for block in here]
    if isinstance(source, GpuStore) and isinstance(target, GpuStore) and target.is_near(source):
        target.copy_from(source, source_positions, target_positions, lengths)
        return _read_digests(target, target_positions, lengths)
    return _copy_through_scratch(source, source_positions, target, target_positions, lengths)


def _copy_through_scratch(
    source: BlockStore,
    source_positions: Sequence[int],
    target: BlockStore,
    target_positions: Sequence[int],
    lengths: Sequence[int],
) -> list[int]:
    digests: list[int] = []
    for first, last in batches(lengths, SCRATCH_BYTES):
        blocks = _read(source, source_positions[first:last], lengths[first:last])
        target.write_many(target_positions[first:last], blocks)
        digests += [xxh3_64_intdigest(block.data) for block in blocks]
    return digests


def _read_digests(store: BlockStore, positions: Sequence[int], lengths: Sequence[int]) -> list[int]:
    return [
        xxh3_64_intdigest(block.data)
        for first, last in batches(lengths, SCRATCH_BYTES)
        for block in _read(store, positions[first:last], lengths[first:last])
    ]


def _read(store: BlockStore, positions: Sequence[int], lengths: Sequence[int]) -> list[Bytes]:
    blocks: list[Bytes] = [np.empty(length, np.uint8) for length in lengths]
    store.read_into(positions, blocks)
    return blocks


def batches(lengths: Sequence[int], limit: int) -> Iterator[tuple[int, int]]:
    """Cut a list of lengths into runs of at most a total; one that is longer is a run of its own.

    Yields:
        The place of the first and the place behind the last of each run.
    """
    first, total = 0, 0
    for place, length in enumerate(lengths):
        if place > first and total + length > limit:
            yield first, place
            first, total = place, 0
        total += length
    if lengths:
        yield first, len(lengths)
