"""Ranges side by side in staging memory."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtier.server.stores.packing import Piece, pack

BEGIN, END = 64, 256


@given(
    st.lists(st.tuples(st.integers(0, 1 << 40), st.integers(0, 700)), max_size=40),
    st.integers(1, 5),
)
def test_pieces_cover_every_range_in_order_and_never_overlap(
    places: list[tuple[int, int]], most: int
) -> None:
    """Within the staging memory, equal to the arena modulo 16, and no more at once than allowed."""
    ranges = [(number, start, length) for number, (start, length) in enumerate(places)]

    batches = list(pack(ranges, begin=BEGIN, end=END, most=most))

    for pieces in batches:
        assert 0 < len(pieces) <= most
        free = BEGIN
        for piece in pieces:
            assert free <= piece.packed < piece.packed + piece.length <= END
            assert piece.packed % 16 == piece.start % 16
            free = piece.packed + piece.length
    covered = [0] * len(ranges)
    last = -1
    for piece in (piece for pieces in batches for piece in pieces):
        assert piece.block >= last
        last = piece.block
        assert piece.offset == covered[piece.block]
        assert piece.start == ranges[piece.block][1] + piece.offset
        covered[piece.block] += piece.length
    assert covered == [length for _, _, length in ranges]


@pytest.mark.parametrize(
    ("ranges", "batches"),
    [
        ([], []),
        ([(0, 32, 0)], []),
        ([(0, 35, 10)], [[Piece(0, 0, 35, 67, 10)]]),
        ([(0, 0, 100), (1, 0, 92)], [[Piece(0, 0, 0, 64, 100)], [Piece(1, 0, 0, 64, 92)]]),
        ([(3, 16, 200)], [[Piece(3, 0, 16, 64, 192)], [Piece(3, 192, 208, 64, 8)]]),
    ],
)
def test_only_a_range_larger_than_the_memory_is_cut(
    ranges: list[tuple[int, int, int]], batches: list[list[Piece]]
) -> None:
    """One that does not fit any more waits for the next step."""
    assert list(pack(ranges, begin=BEGIN, end=END, most=8)) == batches
