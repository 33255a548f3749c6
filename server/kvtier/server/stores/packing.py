"""Laying out many ranges of an arena side by side, so that they cross at once."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

# A GPU moves 16 bytes at a time where source and target are equally far from such a boundary.
_WORD = 16


class Piece(NamedTuple):
    """A part of a block, or all of it, that crosses in one step.

    Attributes:
        block: The block's number.
        offset: Where the piece begins in the block, in bytes.
        start: Where it begins in the arena.
        packed: Where it begins in the staging memory.
        length: Its length in bytes.
    """

    block: int
    offset: int
    start: int
    packed: int
    length: int


def pack(
    ranges: Iterable[tuple[int, int, int]], *, begin: int, end: int, most: int
) -> Iterator[list[Piece]]:
    """Yield lists of pieces that fit into staging memory together, and cover the ranges in order.

    Pieces lie in staging memory as they lie in the arena modulo 16 bytes. Only a range that is
    larger than the memory is cut.

    Args:
        ranges: The number of a block, where it begins in the arena, and its length; in bytes.
        begin: Where the staging memory may be used from, a multiple of 16.
        end: Where it ends; at least 32 bytes later.
        most: Number of pieces that may cross in one step.
    """
    pieces: list[Piece] = []
    free = begin
    for block, position, length in ranges:
        offset = 0
        while offset < length:
            packed = _like(free, position + offset)
            if pieces and (packed + length - offset > end or len(pieces) == most):
                yield pieces
                pieces, free = [], begin
                continue
            size = min(length - offset, end - packed)
            pieces.append(Piece(block, offset, position + offset, packed, size))
            offset, free = offset + size, packed + size
    if pieces:
        yield pieces


def _like(free: int, position: int) -> int:
    """Return the first place from one on that is equal to a position modulo a word."""
    return free + (position - free) % _WORD
