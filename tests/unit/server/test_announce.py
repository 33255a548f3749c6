"""How a tier's events tell chains: as few runs as there are, and every block in its place."""

from hypothesis import given
from hypothesis import strategies as st

from kvtier.server.tiers.announce import find_runs
from kvtier.server.tiers.spaces import NamespaceInfo
from kvtier.server.tiers.table import BlockTable
from tests.contract.support import TOKENS, namespace

SLOTS = 6
INFO = NamespaceInfo.of(bytes(32), namespace())

# A slot's block is called by the slot; its parent is another slot's block, or there is none.
blocks = st.lists(
    st.tuples(st.one_of(st.none(), st.integers(0, SLOTS - 1)), st.integers(0, 3)),
    min_size=SLOTS,
    max_size=SLOTS,
)


def key(slot: int) -> bytes:
    return bytes(8) + slot.to_bytes(32, "big")


def table_of(described: list[tuple[int | None, int]]) -> BlockTable:
    """A table whose slots have these parents and start at these blocks of their chains."""
    table = BlockTable(SLOTS)
    table.take(SLOTS)
    for slot, (parent, block) in enumerate(described):
        table.key[slot] = key(slot)
        table.parent[slot] = None if parent is None else key(parent)
        table.start[slot] = block * TOKENS
    return table


@given(described=blocks, slots=st.permutations(range(SLOTS)), count=st.integers(1, SLOTS))
def test_runs_tell_parent_and_position_of_every_block(
    described: list[tuple[int | None, int]], slots: list[int], count: int
) -> None:
    """Within a run each block is the parent of the next; a run ends only where that is not so."""
    table, some = table_of(described), slots[:count]

    runs = find_runs(table, some, INFO)

    told: list[tuple[int, bytes | None, int]] = []
    for run in runs:
        parent = table.parent[run.first]
        for place in range(run.length):
            slot = some[len(told)]
            told.append((slot, parent, run.start + place * TOKENS))
            parent = table.key[slot]
    assert told == [(slot, table.parent[slot], table.start[slot]) for slot in some]
    ends = [sum(run.length for run in runs[: i + 1]) for i in range(len(runs) - 1)]
    for end in ends:
        before, after = some[end - 1], some[end]
        follows = table.parent[after] == table.key[before]
        assert not follows or table.start[after] != table.start[before] + TOKENS


def test_a_whole_chain_is_one_run() -> None:
    """The common case is told in the fewest bytes."""
    table = table_of([(None, 0), (0, 1), (1, 2), (2, 3), (None, 0), (4, 1)])

    assert [run.length for run in find_runs(table, [0, 1, 2, 3], INFO)] == [4]
    assert [run.length for run in find_runs(table, [0, 1, 2, 3, 4, 5], INFO)] == [4, 2]
