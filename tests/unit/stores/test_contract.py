"""What every store does, whatever holds its bytes."""

from array import array
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvtier.server.stores.base import BlockStore, look

OpenStore = Callable[[int], BlockStore]


def test_what_was_written_is_read_and_its_neighbours_are_untouched(open_any: OpenStore) -> None:
    """Bytes and views are taken; positions need no alignment."""
    store = open_any(64)
    store.write(0, bytes(64))

    store.write(3, b"abc")
    store.write(6, memoryview(b"xdefx")[1:4])

    assert store.read(0, 12) == b"\0\0\0abcdef\0\0\0"


def test_a_view_of_wide_items_is_written_byte_for_byte(open_any: OpenStore) -> None:
    """The length of such a view counts items, not bytes."""
    store = open_any(64)
    values = array("Q", [1, 2**63])

    store.write(8, memoryview(values))

    assert store.read(8, 16) == values.tobytes()


def test_a_read_is_a_copy(open_any: OpenStore) -> None:
    """A later write does not change what was read."""
    store = open_any(8)
    store.write(0, b"original")

    got = store.read(0, 8)
    store.write(0, b"replaced")

    assert got == b"original"


@pytest.mark.parametrize("position", [-1, 5, 8, 9, 1 << 62])
def test_what_lies_outside_is_refused_and_nothing_changes(
    open_any: OpenStore, position: int
) -> None:
    """Neither half of such a write is done."""
    store = open_any(8)
    store.write(0, b"original")

    with pytest.raises(ValueError, match="not within the store's 8 bytes"):
        store.write(position, b"long")
    with pytest.raises(ValueError, match="not within the store's 8 bytes"):
        store.read(position, 4)

    assert store.read(0, 8) == b"original"


def test_a_negative_length_is_refused(open_any: OpenStore) -> None:
    """It would otherwise read to the end."""
    with pytest.raises(ValueError, match="not within"):
        open_any(8).read(4, -1)


def test_a_store_without_capacity_holds_nothing(open_any: OpenStore) -> None:
    """It opens and closes, and takes no byte."""
    store = open_any(0)

    store.write(0, b"")

    assert store.capacity_bytes == 0
    assert store.read(0, 0) == b""
    with pytest.raises(ValueError, match="not within the store's 0 bytes"):
        store.write(0, b"x")


def test_closing_again_does_nothing_and_a_closed_store_is_empty(open_any: OpenStore) -> None:
    """A late caller gets an error, not memory that is no longer there."""
    store = open_any(8)

    store.close()
    store.close()

    with pytest.raises(ValueError, match="not within"):
        store.read(0, 8)
    with pytest.raises(ValueError, match="not within"):
        store.write(0, b"original")


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None
)
@given(
    st.lists(st.integers(0, 300), unique=True, min_size=2).map(sorted),
    st.randoms(use_true_random=False),
)
def test_writes_of_disjoint_ranges_give_what_they_give_in_a_bytearray(
    open_any: OpenStore, cuts: list[int], random: Random
) -> None:
    """Ranges between random cuts, written in random order, then read at once and one by one."""
    ranges = list(pairwise(cuts))
    random.shuffle(ranges)
    store, model = open_any(300), bytearray(300)
    store.write(0, bytes(model))

    for start, end in ranges:
        data = random.randbytes(end - start)
        store.write(start, data)
        model[start:end] = data

    assert store.read(0, 300) == model
    assert all(store.read(a, b - a) == model[a:b] for a, b in ranges)
    store.close()


def test_threads_may_write_and_read_ranges_of_their_own(open_any: OpenStore) -> None:
    """Each finds its own bytes again, round after round."""
    size, workers = 256 << 10, 8
    store = open_any(size * workers)

    def work(worker: int) -> bool:
        rounds = (bytes([worker * 16 + r]) * size for r in range(16))
        return all(write_and_read(worker * size, data) for data in rounds)

    def write_and_read(position: int, data: bytes) -> bool:
        store.write(position, data)
        return store.read(position, size) == data

    with ThreadPoolExecutor(workers) as pool:
        assert all(pool.map(work, range(workers)))


def test_a_view_shows_what_is_read_and_cannot_be_written(open_any: OpenStore) -> None:
    """It is for readers alone; where the store is in place it takes no memory of its own."""
    store = open_any(64)
    store.write(0, bytes(range(64)))

    view = look(store, 3, 8)
    store.write(3, b"replaced")

    assert view.readonly
    assert bytes(view) == (b"replaced" if store.views((), ()) is not None else bytes(range(3, 11)))


@pytest.mark.parametrize(("position", "length"), [(-1, 4), (5, 4), (1 << 62, 4), (4, -1)])
def test_a_view_lies_within_the_store(open_any: OpenStore, position: int, length: int) -> None:
    """As a read does, and of a closed store there is none."""
    store = open_any(8)

    with pytest.raises(ValueError, match="not within"):
        look(store, position, length)
    store.close()
    with pytest.raises(ValueError, match="not within"):
        look(store, 0, 8)
