"""Taking the byte stream of a call apart into pieces of blocks."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kvtier.wire.chunks import Chunk
from kvtier.wire.errors import invalid


class Piece(NamedTuple):
    """A part of one block, or all of it.

    Attributes:
        place: The block's place in the offer.
        offset: Where in the block the data starts.
        data: The bytes.
        checksum: The XXH3-64 of the whole block when it ends here, else None.
    """

    place: int
    offset: int
    data: memoryview
    checksum: int | None


def cut(message: Chunk, block_bytes: Sequence[int]) -> list[Piece]:
    """Return the pieces that a message brings.

    Args:
        message: The data of a message.
        block_bytes: Bytes of each block of the offer.

    Raises:
        KvtierError: INVALID_ARGUMENT when the data lies outside the blocks, or checksums and ends
            of blocks do not match.
    """
    pieces = list(_cut(message, block_bytes))
    ends = sum(1 for piece in pieces if piece.checksum is not None)
    if ends != len(message.checksums):
        raise invalid(
            f"{ends} blocks end within the message, but it has {len(message.checksums)} checksums: "
            "send one for each block that ends"
        )
    return pieces


def _cut(message: Chunk, block_bytes: Sequence[int]) -> Iterator[Piece]:
    rest = memoryview(message.data)
    checksums = iter(message.checksums)
    place, offset = message.block_index, message.offset
    while rest:
        if place >= len(block_bytes):
            raise invalid(
                f"data reaches block {place}; the offer has {len(block_bytes)} blocks, from 0"
            )
        size = block_bytes[place]
        if offset >= size:
            raise invalid(f"offset is {offset}; block {place} has {size} bytes")
        data = rest[: size - offset]
        ends = offset + len(data) == size
        yield Piece(place, offset, data, next(checksums, 0) if ends else None)
        rest = rest[len(data) :]
        place, offset = place + 1, 0
