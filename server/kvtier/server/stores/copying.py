"""Copying blocks from one store to another."""

from collections.abc import Sequence

from xxhash import xxh3_64_intdigest

from kvtier.server.stores.base import BlockStore


def copy_slots(
    source: BlockStore,
    source_positions: Sequence[int],
    target: BlockStore,
    target_positions: Sequence[int],
    lengths: Sequence[int],
) -> list[int]:
    """Copy blocks, and return the XXH3-64 of what was read of each.

    Raises:
        OSError: When reading or writing fails.
    """
    digests = []
    for read_at, write_at, length in zip(source_positions, target_positions, lengths, strict=True):
        data = source.read(read_at, length)
        digests.append(xxh3_64_intdigest(data))
        target.write(write_at, data)
    return digests
