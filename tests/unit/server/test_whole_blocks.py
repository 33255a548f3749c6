"""Whole small blocks of one message, written in one go."""

import pytest

from kvtier.server.transfers.whole import count_whole
from kvtier.wire.chunks import Chunk


def message(data: bytes, *, first: int = 0, offset: int = 0, checksums: int = 2) -> Chunk:
    return Chunk(block_index=first, offset=offset, checksums=list(range(checksums)), data=data)


def test_whole_blocks_of_one_size_are_counted() -> None:
    """Data that covers blocks of one size from their start brings that many."""
    assert count_whole(message(bytes(16)), [8, 8, 8]) == 2
    assert count_whole(message(bytes(16), first=1), [4, 8, 8]) == 2


@pytest.mark.parametrize(
    ("sent", "block_bytes"),
    [
        (message(b"", checksums=0), [8, 8]),
        (message(bytes(12)), [8, 8]),
        (message(bytes(16), offset=8), [8, 8, 8]),
        (message(bytes(16)), [8, 4, 4]),
        (message(bytes(24), checksums=3), [8, 8]),
        (message(bytes(16), checksums=1), [8, 8]),
        (message(bytes(16), first=2), [8, 8]),
    ],
    ids=["no data", "half", "from the middle", "sizes", "beyond", "checksums", "no such block"],
)
def test_anything_else_is_taken_piece_by_piece(sent: Chunk, block_bytes: list[int]) -> None:
    """Parts, other sizes and what is malformed are left to the general way, which judges them."""
    assert count_whole(sent, block_bytes) == 0
