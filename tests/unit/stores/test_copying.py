"""Copies between stores of every two kinds."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest
from xxhash import xxh3_64_intdigest

from kvtier.server.stores.base import BlockStore
from kvtier.server.stores.copying import batches, copy_slots

OpenKind = Callable[[str, int], BlockStore]
KINDS = ["host", "emulated", "cuda"]


@pytest.mark.parametrize("target_kind", KINDS)
@pytest.mark.parametrize("source_kind", KINDS)
def test_blocks_arrive_byte_for_byte_with_their_digests(
    open_kind: OpenKind, source_kind: str, target_kind: str
) -> None:
    """Of odd sizes, in any order of slots; the bytes between them are untouched."""
    source, target = open_kind(source_kind, 9000), open_kind(target_kind, 9000)
    content, before = Random(1).randbytes(9000), bytes(range(250)) * 36
    source.write(0, content)
    target.write(0, before)
    moves = [(8000, 5, 999), (17, 3000, 4097), (5, 1100, 1), (4500, 8001, 16), (6000, 1200, 0)]

    digests = copy_slots(
        source, [m[0] for m in moves], target, [m[1] for m in moves], [m[2] for m in moves]
    )

    expected = bytearray(before)
    for start, end, length in moves:
        expected[end : end + length] = content[start : start + length]
    assert target.read(0, 9000) == expected
    assert digests == [xxh3_64_intdigest(content[s : s + length]) for s, _, length in moves]


@pytest.mark.parametrize("target_kind", KINDS)
@pytest.mark.parametrize("source_kind", KINDS)
def test_a_range_outside_of_either_store_is_refused_and_nothing_is_written(
    open_kind: OpenKind, source_kind: str, target_kind: str
) -> None:
    """Not even the ranges before it."""
    source, target = open_kind(source_kind, 64), open_kind(target_kind, 64)
    source.write(0, bytes(64))
    target.write(0, b"\1" * 64)

    with pytest.raises(ValueError, match="not within the store's 64 bytes"):
        copy_slots(source, [0, 60], target, [0, 8], [8, 8])
    with pytest.raises(ValueError, match="not within the store's 64 bytes"):
        copy_slots(source, [0, 0], target, [0, 60], [8, 8])

    assert target.read(0, 64) == b"\1" * 64


@pytest.mark.parametrize(("source_kind", "target_kind"), [("cuda", "host"), ("host", "cuda")])
def test_copies_in_many_threads_do_not_mix(
    open_kind: OpenKind, source_kind: str, target_kind: str
) -> None:
    """Each thread moves its own part of the arena, over and over."""
    part, workers = 64 << 10, 8
    source, target = open_kind(source_kind, part * workers), open_kind(target_kind, part * workers)
    content = Random(2).randbytes(part * workers)
    source.write(0, content)

    def work(worker: int) -> None:
        base = worker * part
        lengths = [part // 4] * 4
        starts = [base + i * part // 4 for i in range(4)]
        for _ in range(8):
            copy_slots(source, starts, target, starts, lengths)

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, range(workers)))

    assert target.read(0, part * workers) == content


def test_lists_of_different_lengths_are_refused(open_kind: OpenKind) -> None:
    """Rather than copying what both have."""
    store = open_kind("host", 64)

    with pytest.raises(ValueError, match="zip"):
        copy_slots(store, [0, 8], store, [32, 40], [8])


@pytest.mark.parametrize(
    ("lengths", "runs"),
    [
        ([], []),
        ([9], [(0, 1)]),
        ([1, 2, 1], [(0, 3)]),
        ([3, 3, 1, 9, 1], [(0, 1), (1, 3), (3, 4), (4, 5)]),
        ([0, 0], [(0, 2)]),
    ],
)
def test_runs_stay_within_the_limit(lengths: list[int], runs: list[tuple[int, int]]) -> None:
    """Only one that is longer by itself goes beyond it."""
    assert list(batches(lengths, 4)) == runs
