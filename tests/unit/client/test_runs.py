"""Runs of blocks, taken apart by the places of the blocks."""

from hypothesis import given
from hypothesis import strategies as st

from kvtier.client.proxy.runs import Runs
from kvtier.v1.block_pb2 import BlockRun

from .managing import runs_of
from .messages import FINGERPRINT, NAMESPACE, hash_of, pack

TOKENS = NAMESPACE.tokens_per_block
any_runs = st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=6), min_size=1, max_size=4)


def test_a_part_names_its_parent_and_position() -> None:
    """And its own token ids, and what the run says of all its blocks."""
    whole = BlockRun(
        group=1,
        scope=b"s",
        block_hashes=pack([1, 2, 3, 4]),
        parent_block_hash=hash_of(9),
        start_position=32,
        token_ids=range(4 * TOKENS),
        adapter_name="a",
    )

    head, tail = Runs(FINGERPRINT, NAMESPACE, [whole]).some([0, 2, 3])

    assert head.parent_block_hash == hash_of(9)
    assert (head.start_position, head.block_hashes) == (32, pack([1]))
    assert tail == BlockRun(
        group=1,
        scope=b"s",
        block_hashes=pack([3, 4]),
        parent_block_hash=hash_of(2),
        start_position=32 + 2 * TOKENS,
        token_ids=range(2 * TOKENS, 4 * TOKENS),
        adapter_name="a",
    )


def test_neighbours_of_two_runs_stay_apart() -> None:
    """The last of one run is not the parent of the first of the next."""
    parts = runs_of([1, 2], [3, 4]).some([1, 2])

    assert [part.block_hashes for part in parts] == [pack([2]), pack([3])]
    assert [part.parent_block_hash for part in parts] == [hash_of(1), b""]


@given(any_runs, st.data())
def test_parts_hold_exactly_what_was_chosen(numbers: list[list[int]], data: st.DataObject) -> None:
    """In order, whatever is chosen of whatever runs."""
    runs = runs_of(*numbers)
    flat = [number for run in numbers for number in run]
    chosen = sorted(data.draw(st.sets(st.integers(0, len(flat) - 1))))

    parts = runs.some(chosen)

    assert b"".join(part.block_hashes for part in parts) == pack(flat[place] for place in chosen)
    assert [each.block_hashes for each in runs.sets(chosen)] == [p.block_hashes for p in parts]


def test_a_block_that_is_named_twice_has_one_place() -> None:
    """Its first among those that are asked for."""
    runs = runs_of([1, 2, 1], [2, 3])

    assert runs.once(range(5)) == [0, 1, 4]
    assert runs.once([2, 3, 4]) == [2, 3, 4]
