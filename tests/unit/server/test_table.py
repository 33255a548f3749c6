"""The block table: slots that are taken and given back, and columns that grow with them."""

from hypothesis import given
from hypothesis import strategies as st

from kvtier.server.tiers.table import FREE, BlockTable
from tests.contract.support import cpu_tier

from .conftest import MakeNode
from .support import LocalNode

GROWTH = 1 << 14


@given(
    capacity=st.integers(0, 40),
    steps=st.lists(st.tuples(st.booleans(), st.integers(0, 12)), max_size=30),
)
def test_slots_are_lent_once_at_a_time(capacity: int, steps: list[tuple[bool, int]]) -> None:
    """Whatever is taken and given back, no slot has two holders and none is lost."""
    table = BlockTable(capacity)
    held: list[int] = []

    for take, count in steps:
        if take:
            taken = table.take(min(count, table.free))
            assert not set(taken) & set(held)
            assert len(set(taken)) == len(taken)
            held += taken
        else:
            back, held = held[:count], held[count:]
            table.give_back(back)
        assert table.free == capacity - len(held)

    assert sorted(held + table.take(table.free)) == list(range(capacity))


def test_the_slots_that_were_freed_last_are_taken_first() -> None:
    """Memory that was used is used again before more is touched."""
    table = BlockTable(100)
    slots = table.take(5)

    table.give_back(slots[1:3])

    assert table.take(3) == [slots[1], slots[2], 5]


def test_columns_grow_with_what_is_used() -> None:
    """A tier of many slots costs nothing for those that were never used."""
    table = BlockTable(1 << 30)

    table.take(1)

    assert len(table) == GROWTH
    assert table.free == (1 << 30) - 1
    columns = (table.state, table.leases, table.key, table.parent, table.start, table.origin)
    assert {len(column) for column in (*columns, table.birth, table.checksum)} == {GROWTH}


def test_a_tier_fills_across_the_growth_of_its_columns(make_node: MakeNode) -> None:
    """An offer that needs new rows in the middle gets them."""
    node = make_node(cpu_tier(GROWTH + 4))
    for first in range(0, GROWTH, 4096):
        node.store(*range(first, first + 4096))

    assert node.store(*(f"last {i}" for i in range(4))) == []

    assert node.gauges() == {"ready": GROWTH + 4}
    assert node.look_up("last 3", 0) == ["HIT", "HIT"]


def test_freed_slots_forget_their_token_ids(node: LocalNode) -> None:
    """What a slot kept of its block is not taken for the next block's."""
    table = node.tier.table
    (slot,) = table.take(1)
    table.token_ids[slot] = b"ids"

    table.give_back([slot])

    assert table.token_ids == {}
    assert table.state[slot] == FREE
