"""Runs of hashes: packed and unpacked without loss, whatever the width and the number."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtier.wire.hashes import join_hashes, split_hashes


@given(st.data(), st.integers(8, 64))
def test_packed_hashes_come_back_in_order(data: st.DataObject, width: int) -> None:
    """Every width that a namespace may state."""
    hashes = data.draw(st.lists(st.binary(min_size=width, max_size=width), max_size=40))

    assert split_hashes(join_hashes(hashes), width) == tuple(hashes)


@pytest.mark.parametrize("count", [0, 1, 255, 256, 257, 512, 131_072])
def test_a_run_of_any_length_is_unpacked_whole(count: int) -> None:
    """Around the size of a chunk, and as long as a request may be."""
    hashes = tuple(i.to_bytes(8, "big") for i in range(count))

    assert split_hashes(join_hashes(hashes), 8) == hashes


@given(st.lists(st.tuples(st.binary(min_size=3, max_size=3), st.binary(min_size=8, max_size=8))))
def test_what_stands_before_each_hash_is_passed_over(entries: list[tuple[bytes, bytes]]) -> None:
    """Keys that carry a prefix are unpacked to their hashes."""
    packed = b"".join(prefix + block for prefix, block in entries)

    assert split_hashes(packed, 8, skip=3) == tuple(block for _, block in entries)


def test_a_length_that_is_no_multiple_of_the_width_is_refused() -> None:
    """The message names both numbers."""
    with pytest.raises(ValueError, match="33 bytes of hashes are no multiple of the width 32"):
        split_hashes(bytes(33), 32)
