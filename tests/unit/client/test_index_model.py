"""An index equals plain sets."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kvtier.client import BlockIndex, TierOf

from .indexing import (
    any_step,
    apply,
    chain_of,
    happen,
    key,
    keys,
    walk,
)
from .messages import (
    FINGERPRINT,
    Script,
)
from .patience import patiently


@patiently
@given(st.lists(any_step, max_size=30), st.lists(st.integers(0, 20), max_size=8))
def test_the_view_equals_plain_sets(steps: list[Any], chain: list[int]) -> None:
    """After any batches and snapshots of three nodes, every answer is that of plain sets."""
    index = BlockIndex()
    scripts = [Script(f"n{number}") for number in range(3)]
    model: dict[tuple[str, str], set[int]] = {}
    for script in scripts:
        apply(index, *script.start())

    for number, kind, events in steps:
        apply(index, *happen(scripts[number], kind, events, model))
    lengths = index.prefix(FINGERPRINT, 0, b"", chain_of(*chain))

    assert index.bad_events == 0
    for (node, tier), numbers in model.items():
        assert index.blocks(node, tier) == keys(*numbers)
        assert index.count(node, tier) == len(numbers)
        assert lengths.tiers.get(TierOf(node, tier), 0) == walk(chain, numbers)
    for script in scripts:
        node = script.node_id
        union = set().union(*(numbers for (n, _), numbers in model.items() if n == node))
        assert lengths.nodes[node] == walk(chain, union)
        held = index.held(node, FINGERPRINT, 0, b"", chain_of(*chain))
        assert held == [number in union for number in chain]
    for number in range(21):
        assert set(index.locate(key(number))) == {
            place for place, numbers in model.items() if number in numbers
        }
    located = index.locate_many(FINGERPRINT, 0, b"", chain_of(*range(21)))
    assert located == [index.locate(key(number)) for number in range(21)]
    masks = index.masks(
        FINGERPRINT, 0, b"", chain_of(*range(21)), [TierOf(*each) for each in model]
    )
    assert masks == [
        sum(1 << i for i, numbers in enumerate(model.values()) if number in numbers)
        for number in range(21)
    ]
    some = index.prefix(FINGERPRINT, 0, b"", chain_of(*chain), nodes=["n1", "nobody"])
    assert some.nodes == {"n1": lengths.nodes["n1"]}
    assert some.tiers == {place: n for place, n in lengths.tiers.items() if place.node == "n1"}
