"""Two sets of blocks, set against each other on disk."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from kvtier.cli.comparing.block_line import BlockLine
from kvtier.cli.comparing.parts import Difference, Parts
from kvtier.cli.comparing.telling import Counts, block_records
from kvtier.v1.tier_pb2 import Block


def block(name: str, *, tier: str = "cpu0", namespace: bytes = b"n", group: int = 0) -> Block:
    return Block(
        tier=tier, namespace=namespace, group=group, scope=b"s", block_hash=name.encode() * 32
    )


def line(name: str, *, by_tier: bool = True, tier: str = "cpu0") -> str:
    return BlockLine.of(block(name, tier=tier), by_tier=by_tier).line()


@pytest.mark.parametrize(
    ("first", "second"),
    [([], []), ([1], []), ([1, 1, 2], [2, 2]), (range(1000), range(500, 3000)), ([7], [7])],
)
def test_the_parts_together_are_the_difference(
    tmp_path: Path, first: Sequence[int], second: Sequence[int]
) -> None:
    """Every line is in one part only, and counts once however often it came."""
    with Parts(tmp_path) as parts:
        for side, numbers in enumerate((first, second)):
            for number in numbers:
                parts.add(side, f"{number}\n")
        found = list(parts.differences())

    together = [
        Counter(line for part in parts for line in part) for parts in zip(*found, strict=True)
    ]
    one, two = ({f"{number}\n" for number in numbers} for numbers in (first, second))
    assert together == [Counter(one - two), Counter(two - one), Counter(one & two)]


def test_a_line_tells_a_block_from_all_others() -> None:
    """By namespace, group, scope and hash, and by tier where that matters."""
    lines = {
        line("a"),
        line("b"),
        line("a", tier="gpu0"),
        BlockLine.of(block("a", namespace=b"m"), by_tier=True).line(),
        BlockLine.of(block("a", group=1), by_tier=True).line(),
    }

    assert len(lines) == 5
    assert line("a", by_tier=False) == line("a", tier="gpu0", by_tier=False)


def test_a_strange_tier_name_does_not_break_a_line() -> None:
    """What a server calls its tiers is not to be trusted."""
    read = BlockLine.read(line("a", tier="x\ty\nz\N{SNOWMAN}"))

    assert read.tier == r"x\ty\nz\u2603"
    assert read.block_hash == (b"a" * 32).hex()


def test_blocks_are_counted_by_namespace_and_tier() -> None:
    """In the order of their names; a namespace that nobody described has none."""
    counts = Counts()
    named = BlockLine.of(block("a"), by_tier=True).line()
    unnamed = BlockLine.of(block("a", namespace=b"m"), by_tier=True).line()

    counts.add(Difference({line("b"), unnamed}, {line("c")}, {named}))

    assert counts.alone == (2, 1)
    told = counts.records({b"n".hex(): "files"})
    assert [(r["namespace_name"], r["tier"]) for r in told] == [("", "cpu0"), ("files", "cpu0")]
    assert [(r["only_a"], r["only_b"], r["both"]) for r in told] == [(1, 0, 0), (1, 1, 1)]


def test_each_differing_block_is_told_with_who_has_it() -> None:
    """Those of the first node come first, in order of what they are."""
    difference = Difference({line("b"), line("a")}, {line("c")}, {line("d")})

    told = list(block_records(difference, ["one", "two"], {b"n".hex(): "files"}))

    assert [(r["only_on"], bytes.fromhex(r["block_hash"])[:1]) for r in told] == [
        ("one", b"a"),
        ("one", b"b"),
        ("two", b"c"),
    ]
    assert {(r["namespace_name"], r["scope"], r["group"]) for r in told} == {("files", "73", 0)}
