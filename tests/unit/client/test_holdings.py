"""The table of who holds which blocks."""

import time
import tracemalloc
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtier.client import masks
from kvtier.client.holdings import Holdings
from kvtier.client.source import MAX_TIERS, Build, Holder

from .messages import hash_of
from .patience import patiently

_BLOCKS = 40
_numbers = st.lists(st.integers(0, _BLOCKS - 1), unique=True, min_size=1, max_size=12)
_what = st.sampled_from(["add", "add", "remove", "drop", "sweep"])
_step = st.tuples(_what, st.integers(0, 8), _numbers)


def builds_of(*tiers: int) -> list[Build]:
    """Return builds, each with so many holders."""
    builds = [Build(f"n{number}", visible=True) for number in range(len(tiers))]
    for build, count in zip(builds, tiers, strict=True):
        build.holders.update({f"t{tier}": Holder(build, f"t{tier}") for tier in range(count)})
    return builds


def hashes_of(*numbers: int) -> list[bytes]:
    return [hash_of(number) for number in numbers]


def walk(chain: list[int], held: set[int]) -> int:
    return next((place for place, each in enumerate(chain) if each not in held), len(chain))


@patiently
@given(st.lists(_step, max_size=60), st.lists(st.integers(0, _BLOCKS - 1), max_size=12))
def test_the_table_equals_a_set_for_each_holder(
    steps: list[tuple[str, int, list[int]]], chain: list[int]
) -> None:
    """Whatever comes, goes, is dropped or swept, every answer is that of plain sets."""
    builds = builds_of(1, 3, 5)
    holders = [holder for build in builds for holder in build.holders.values()]
    model: dict[Holder, set[int]] = {holder: set() for holder in holders}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(masks, "_LARGEST_DICT", 8)
        table = Holdings()
        for what, which, numbers in steps:
            _happen(table, what, holders[which], numbers, model)

    for holder, expected in model.items():
        assert set(table.blocks(holder)) == set(hashes_of(*expected))
        assert table.count(holder) == len(expected)
    located = table.locate(hashes_of(*range(_BLOCKS)))
    assert [set(each) for each in located] == [
        {holder for holder in holders if number in model[holder]} for number in range(_BLOCKS)
    ]
    for asked in (builds, builds[1:2]):
        _check_prefixes(table, asked, chain, model)
        _check_best_copies(table, asked, chain, model)


def _happen(
    table: Holdings, what: str, holder: Holder, numbers: list[int], model: dict[Holder, set[int]]
) -> None:
    match what:
        case "add":
            table.add(holder, hashes_of(*numbers))
            model[holder].update(numbers)
        case "remove":
            table.remove(holder, hashes_of(*numbers))
            model[holder].difference_update(numbers)
        case "drop":
            table.drop(holder)
            model[holder] = set()
        case "sweep":
            table.sweep()


def _check_prefixes(
    table: Holdings, asked: list[Build], chain: list[int], model: dict[Holder, set[int]]
) -> None:
    tiers, nodes = table.prefixes(hashes_of(*chain), asked)

    for build in asked:
        mine = [model[holder] for holder in build.holders.values()]
        assert nodes.get(build, 0) == walk(chain, set().union(*mine))
        assert table.held(build, hashes_of(*chain)) == [any(n in s for s in mine) for n in chain]
        for holder in build.holders.values():
            assert tiers.get(holder, 0) == walk(chain, model[holder])
    assert {holder.build for holder in tiers} <= set(asked)
    assert set(nodes) <= set(asked)


def _check_best_copies(
    table: Holdings, asked: list[Build], chain: list[int], model: dict[Holder, set[int]]
) -> None:
    """Check with three classes: the last tier of each build, the second, and the first."""
    holders = [holder for build in asked for holder in build.holders.values()]
    classes = [[h for h in holders if h.tier == tier] for tier in ("t4", "t1", "t0")]

    tiers, nodes, counts = table.best_copies(hashes_of(*chain), asked, classes)

    assert (tiers, nodes) == table.prefixes(hashes_of(*chain), asked)
    for build in asked:
        held = chain[: nodes.get(build, 0)]
        best = [
            next((c for c, each in enumerate(classes) if number in _held(build, each, model)), None)
            for number in held
        ]
        assert counts.get(build, [0, 0, 0]) == [best.count(place) for place in range(3)]


def _held(build: Build, holders: list[Holder], model: dict[Holder, set[int]]) -> set[int]:
    return set().union(*(model[holder] for holder in holders if holder.build is build))


@pytest.mark.parametrize("length", [65_535, 65_536, 150_000])
def test_chains_are_counted_whatever_their_length(length: int) -> None:
    """A chain of more blocks than a field can count to is counted in parts."""
    one, two = builds_of(2, 1)
    fast, slow = one.holders.values()
    chain = hashes_of(*range(length))
    table = Holdings()
    table.add(slow, chain)
    table.add(fast, chain[1::2])
    table.add(two.holders["t0"], chain)

    tiers, nodes, counts = table.best_copies(chain, [one, two], [[fast], [slow]])

    assert nodes == {one: length, two: length}
    assert tiers[fast] == 0
    assert counts == {one: [length // 2, length - length // 2], two: [0, 0]}


def test_a_tier_that_is_cleared_again_and_again_never_runs_out_of_bits() -> None:
    """A build with as many tiers as a node may have goes on through a hundred clears of each."""
    (build,) = builds_of(MAX_TIERS)
    table = Holdings()

    for number in range(100):
        for holder in build.holders.values():
            table.drop(holder)
            table.add(holder, hashes_of(number, number + 1))

    assert all(table.count(holder) == 2 for holder in build.holders.values())
    assert table.prefixes(hashes_of(99, 100, 101), [build])[1] == {build: 2}


def test_dropping_a_holder_walks_nothing() -> None:
    """The table is not touched by a drop; what is left goes slice by slice, and then all of it."""
    stays, goes = builds_of(1, 1)
    table = Holdings()
    table.add(stays.holders["t0"], hashes_of(*range(1000)))
    table.add(goes.holders["t0"], hashes_of(*range(500, 40_000)))
    sizes = [table.entries]

    table.drop(goes.holders["t0"])

    assert table.entries == 40_000
    while table.sweep():
        sizes.append(table.entries)
    assert sizes[-1] == table.entries == 1000
    assert max(one - two for one, two in pairwise(sizes)) < 1000


def test_memory_comes_back_when_views_come_and_go() -> None:
    """Three hundred views of the same blocks, each in place of the last, take the room of one."""
    table = Holdings()
    hashes = hashes_of(*range(2000))
    (build,) = builds_of(1)
    table.add(build.holders["t0"], hashes)

    def rebuild() -> None:
        nonlocal build
        (after,) = builds_of(1)
        table.add(after.holders["t0"], hashes)
        table.drop(build.holders["t0"])
        build = after
        while table.sweep():
            pass

    rebuild()

    def rebuild_often() -> None:
        for _ in range(300):
            rebuild()

    grown = _growth(rebuild_often)

    assert table.count(build.holders["t0"]) == table.entries == 2000
    assert grown < 1 << 18


def test_a_block_costs_at_most_150_bytes() -> None:
    """Each of a hundred thousand blocks of one tier, its hash of 32 bytes included."""
    (build,) = builds_of(1)
    table = Holdings()

    def fill() -> None:
        for first in range(0, 100_000, 1000):
            hashes = [4 * hash_of(number) for number in range(first, first + 1000)]
            table.add(build.holders["t0"], hashes)

    grown = _growth(fill)

    # Python's allocator rounds what it is asked for up, by 15 bytes at most.
    assert grown / 100_000 <= 150 - 15


def _growth(act: Callable[[], None]) -> int:
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        act()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return after - before


def test_removing_a_block_costs_the_same_however_many_there_are() -> None:
    """Ten thousand removals out of a quarter of a million blocks, beside the same out of few."""
    times = []
    for size in (20_000, 250_000):
        table = Holdings()
        (build,) = builds_of(1)
        for first in range(0, size, 1000):
            table.add(build.holders["t0"], hashes_of(*range(first, first + 1000)))
        going = [hashes_of(*range(first, first + 100)) for first in range(0, 10_000, 100)]
        started = time.thread_time()
        for hashes in going:
            table.remove(build.holders["t0"], hashes)
        times.append(time.thread_time() - started)
        assert table.entries == size - 10_000

    few, many = times
    # Memory out of cache is slower; a scan would be hundreds of times as long.
    assert many < 10 * few
