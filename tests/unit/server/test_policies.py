"""Replacement policies by name, also those that are not kvtier's own."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kvtier.server.tiers import policies
from kvtier.server.tiers.policies import policy_names, register_policy
from kvtier.server.tiers.policy import Age, Aged, Columns, Stamps
from tests.contract.support import block_hash, cpu_tier, hashes

from .conftest import MakeNode


class NewestFirst:
    """Evicts what was stamped last."""

    def __init__(self, columns: Columns, stamps: Stamps) -> None:
        self._leases = columns.leases
        self._stamped: list[int] = []

    def grow(self, slots: int) -> None: ...

    def stamp(self, request_id: str, slots: Sequence[int]) -> None:
        self.forget(slots)
        self._stamped.extend(slots)

    def expect(self, request_id: str, residents: Sequence[int], keys: Sequence[bytes]) -> None: ...

    def enter(self, age: Age, slots: Sequence[int]) -> None:
        self._stamped[:0] = slots

    def ages(self, slots: Sequence[int]) -> list[Aged]:
        return [(Age("", 1), [slot for slot in slots if slot in self._stamped])]

    def victims(self, count: int) -> list[Aged]:
        free = [slot for slot in reversed(self._stamped) if not self._leases[slot]]
        self.forget(free[:count])
        return [(Age("", 1), free[:count])]

    def forget(self, slots: Sequence[int]) -> None:
        self._stamped = [slot for slot in self._stamped if slot not in slots]

    def released(self, slots: Sequence[int]) -> None: ...


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the policy for the time of a test."""
    monkeypatch.setattr(policies, "_POLICIES", dict(policies._POLICIES))
    register_policy("newest-first", NewestFirst)


def test_a_policy_from_outside_is_used_by_its_name(make_node: MakeNode) -> None:
    """The tier that is configured with it evicts what it says, and tells its name."""
    node = make_node(cpu_tier(3, policy="newest-first"))
    for block in "abc":
        node.store(block)

    evicted = [node.store("d"), node.store("e", "f")]

    assert evicted == [[block_hash("c")], [hashes("d", "b")]]
    assert node.tier.policy_name == "newest-first"
    assert policy_names() == ["arc", "lru", "newest-first"]


def test_the_policy_of_the_page_about_policies_works(make_node: MakeNode) -> None:
    """What the page shows as a policy of one's own can be registered, and evicts as it says."""
    page = Path(__file__).parents[3] / "docs" / "policies.md"
    (shown,) = re.findall(r"```python\n(.*?FifoPolicy.*?)```", page.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(shown, names)
    register_policy("fifo", names["FifoPolicy"])
    node = make_node(cpu_tier(3, policy="fifo"))
    for block in "abca":
        node.store(block)

    assert [node.store("d"), node.store("e", "f")] == [[block_hash("a")], [hashes("b", "c")]]


def test_a_policy_is_of_one_tier(make_node: MakeNode) -> None:
    """Another tier of the same node keeps its own."""
    node = make_node(cpu_tier(2), cpu_tier(2, "cpu1", policy="newest-first"))
    for block in "ab":
        node.store(block)

    assert node.store("c") == [block_hash("a")]
