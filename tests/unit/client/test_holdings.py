"""The table of who holds which blocks."""

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from kvtier.client.holdings import Holdings, prefix_lengths

from .messages import hash_of
from .patience import patiently

_hashes = st.lists(st.integers(0, 30).map(hash_of), unique=True, min_size=1, max_size=12)
_step = st.tuples(st.sampled_from(["add", "remove", "drop"]), st.integers(0, 12), _hashes)


@patiently
@given(st.lists(_step, max_size=60))
def test_the_table_equals_a_set_for_each_holder(steps: list[tuple[str, int, list[bytes]]]) -> None:
    """Counts, contents and masks agree with plain sets after any adds, removals and drops."""
    table: Holdings[int] = Holdings()
    model: dict[int, set[bytes]] = {}

    for kind, holder, hashes in steps:
        if kind == "add":
            table.add(holder, hashes)
            model.setdefault(holder, set()).update(hashes)
        elif kind == "remove":
            table.remove(holder, hashes)
            model.setdefault(holder, set()).difference_update(hashes)
        else:
            table.drop(holder)
            model[holder] = set()

    every = [hash_of(number) for number in range(31)]
    masks, bits = table.masks(every), dict(table.bits())
    for holder, expected in model.items():
        bit = bits.get(holder, 0)
        assert set(table.blocks(holder)) == expected
        assert table.count(holder) == len(expected)
        assert {each for each, mask in zip(every, masks, strict=True) if mask & bit} == expected
    assert len(table) == sum(map(len, model.values()))


@patiently
@given(st.lists(st.integers(0, 7), max_size=12))
def test_prefix_lengths_equal_a_walk_for_each_group(masks: list[int]) -> None:
    """One walk over the masks finds what a walk for each group would."""
    groups = {"a": 1, "b": 2, "ab": 3, "c": 4}

    lengths = prefix_lengths(masks, groups)

    for group, bits in groups.items():
        holes = [place for place, mask in enumerate(masks) if not mask & bits]
        assert lengths[group] == (holes[0] if holes else len(masks))


def test_memory_comes_back_when_holders_come_and_go() -> None:
    """A thousand rebuilt views take no more room than one."""
    table: Holdings[int] = Holdings()
    hashes = [hash_of(number) for number in range(2000)]
    table.add(0, hashes)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()

        for holder in range(1, 300):
            table.add(holder, hashes)
            table.drop(holder - 1)

        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert table.count(299) == len(table) == 2000
    assert after - before < 1 << 20
    assert max(table.masks(hashes)) < 1 << 4
