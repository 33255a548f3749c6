"""The index from keys to slots, as one dict and as several."""

import hashlib
from collections.abc import Sequence

import pytest

from kvtier.server.tiers.index import Index, PlainIndex, ShardedIndex, make_index

READY = 3


@pytest.fixture(params=[PlainIndex, lambda: ShardedIndex(4), lambda: ShardedIndex(256)])
def index(request: pytest.FixtureRequest) -> Index:
    made: Index = request.param()
    return made


def keys(*names: object) -> list[bytes]:
    return [hashlib.sha256(repr(name).encode()).digest() for name in names]


def test_every_key_is_found_at_its_slot(index: Index) -> None:
    """A batch of keys gives their slots in order, and None for those that are not there."""
    index.put_many(keys(*range(1000)), range(1000))

    assert index.get_many(keys(999, "absent", 0)) == [999, None, 0]
    assert index.get(keys(7)[0]) == 7
    assert len(index) == 1000


def test_a_dropped_key_is_gone_and_the_others_stay(index: Index) -> None:
    """Taking keys out leaves the rest where it was."""
    index.put_many(keys(1, 2, 3), [1, 2, 3])

    index.drop_many(keys(1, 3))

    assert index.get_many(keys(1, 2, 3)) == [None, 2, None]
    assert len(index) == 1


@pytest.mark.parametrize(
    ("present", "states", "length"),
    [([1, 2, 3], [READY] * 3, 3), ([1, 3], [READY] * 3, 1), ([1, 2, 3], [READY, 1, READY], 1)],
)
def test_a_prefix_ends_at_the_first_key_that_is_absent_or_in_another_state(
    index: Index, present: Sequence[int], states: Sequence[int], length: int
) -> None:
    """Only keys from the first on, without a gap, count."""
    index.put_many(keys(*present), [name - 1 for name in present])

    assert index.prefix(keys(1, 2, 3), states, READY) == length


@pytest.mark.parametrize(
    ("capacity", "shards"), [(0, 1), (100_000, 1), (1_000_000, 64), (1 << 30, 256)]
)
def test_a_large_index_is_cut_so_that_no_dict_is_large(capacity: int, shards: int) -> None:
    """One dict holds up to 131,072 keys, a shard some 16,000: a rehash stays short."""
    made = make_index(capacity)

    assert (len(made._shards) if isinstance(made, ShardedIndex) else 1) == shards
