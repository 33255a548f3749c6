"""The `lru` policy: exactly the order that a plain model gives, whatever happens.

KVTIER_TEST_EFFORT=20 tries twenty times as many random sequences.
"""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kvtier.server.tiers.lru import LruPolicy
from kvtier.server.tiers.policy import OLDEST, Age, Columns, Stamps
from tests.model.effort import examples
from tests.model.plain_lru import PlainLru

SLOTS = 12
slots_lists = st.lists(st.integers(0, SLOTS - 1), min_size=1, max_size=5, unique=True)
requests = st.sampled_from(["", "a", "b", "c"])


def lru(starts: list[int], leases: list[int], stamps: Stamps | None = None) -> LruPolicy:
    """A policy over these columns."""
    policy = LruPolicy(Columns(len(starts), [], starts, leases), stamps or Stamps())
    policy.grow(len(starts))
    return policy


def victims(policy: LruPolicy, count: int) -> list[int]:
    """Take victims, whatever their age."""
    return [slot for _, slots in policy.victims(count) for slot in slots]


class LruMachine(RuleBasedStateMachine):
    """Drives the policy and the model alike."""

    def __init__(self) -> None:
        super().__init__()
        self.starts = [0] * SLOTS
        self.leases = [0] * SLOTS
        self.stamps = Stamps()
        self.policy = lru(self.starts, self.leases, self.stamps)
        self.unused: list[int] = []
        self.model = PlainLru[int](self.starts.__getitem__)

    def held(self) -> list[int]:
        return sorted(self.model.members())

    def order(self) -> list[int]:
        return self.model.order(lambda slot: not self.leases[slot])

    @rule(request_id=requests, slots=slots_lists, starts=st.lists(st.integers(0, 3), min_size=5))
    def stamp(self, request_id: str, slots: list[int], starts: list[int]) -> None:
        """Stamp slots; those that were free come with a position of their own."""
        self.unused.append(self.stamps.next())
        self.model.stamps += 1
        self.place(slots, starts)
        self.policy.stamp(request_id, slots)
        self.model.stamp(request_id, slots)

    def place(self, slots: list[int], starts: list[int]) -> None:
        held = self.held()
        for slot, start in zip(slots, starts, strict=False):
            if slot not in held:
                self.starts[slot] = start
                self.leases[slot] = 0

    @precondition(lambda self: self.unused)
    @rule(data=st.data(), slots=slots_lists, starts=st.lists(st.integers(0, 3), min_size=5))
    def enter(self, data: st.DataObject, slots: list[int], starts: list[int]) -> None:
        """Take in copies: they are as old as what they were copied from, if not older here."""
        stamp = data.draw(st.sampled_from(self.unused), "stamp")
        name = data.draw(st.sampled_from(["a", "b", "c", f"anonymous {stamp}"]), "group")
        self.unused.remove(stamp)
        self.place(slots, starts)
        self.policy.enter(Age(name, stamp), slots)
        self.model.enter(name, stamp, slots)

    @rule(request_id=requests)
    def stamp_nothing(self, request_id: str) -> None:
        """A call that names nothing that is there moves its group to the front all the same."""
        self.policy.stamp(request_id, [])
        self.model.stamp(request_id, [])

    @precondition(lambda self: self.model.members())
    @rule(data=st.data(), kept=st.integers(0, 2))
    def forget(self, data: st.DataObject, kept: int) -> None:
        """Free some slots, which are stamped no more."""
        slots = data.draw(st.lists(st.sampled_from(self.held()), unique=True), "slots")
        for slot in slots:
            self.leases[slot] = kept
        self.policy.forget(slots)
        self.model.forget(slots)

    @precondition(lambda self: self.model.members())
    @rule(data=st.data())
    def lease(self, data: st.DataObject) -> None:
        """Take a lease on some slots."""
        for slot in data.draw(st.lists(st.sampled_from(self.held()), unique=True), "slots"):
            self.leases[slot] += 1

    @precondition(lambda self: any(self.leases[slot] for slot in self.held()))
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        """End a lease on some slots; others may be left."""
        leased = [slot for slot in self.held() if self.leases[slot]]
        slots = data.draw(st.lists(st.sampled_from(leased), unique=True), "slots")
        for slot in slots:
            self.leases[slot] -= 1
        self.policy.released(slots)

    @precondition(lambda self: self.order())
    @rule(data=st.data())
    def evict(self, data: st.DataObject) -> None:
        """Take victims, as many as there may be or fewer."""
        order = self.order()
        count = data.draw(st.integers(1, len(order)), "count")

        ages = {slot: age for age, slots in self.policy.ages(order) for slot in slots}

        taken = self.policy.victims(count)

        chosen = [slot for _, slots in taken for slot in slots]
        assert chosen == order[:count]
        assert {slot: age for age, slots in taken for slot in slots} == {
            slot: ages[slot] for slot in chosen
        }
        assert not self.policy.ages(chosen)
        self.model.forget(chosen)

    @invariant()
    def nothing_is_left_of_what_was_forgotten(self) -> None:
        """The policy remembers no request, and no slot, that has gone."""
        named = {name for name in self.policy._named if not name.startswith("\0")}
        assert named == self.model.names()
        assert len(self.policy._named) == self.model.groups()
        assert self.policy._parked <= set(self.held())

    def teardown(self) -> None:
        """Once every lease has ended, all of it may go, in the model's order."""
        for slot in self.held():
            self.leases[slot] = 0
            self.policy.released([slot])
        order = self.order()
        if order:
            assert victims(self.policy, len(order)) == order


@pytest.mark.parametrize("released", [[1, 2], [2, 1]])
def test_leases_change_no_order_at_equal_positions(released: list[int]) -> None:
    """Of blocks at one position the later in the offer goes first, whichever lease ended first."""
    starts, leases = [0, 0, 0], [0, 1, 1]
    policy = lru(starts, leases)
    policy.stamp("a", [0, 1, 2])
    assert victims(policy, 1) == [0]

    for slot in released:
        leases[slot] = 0
        policy.released([slot])

    assert victims(policy, 2) == [2, 1]


def test_a_block_that_joins_later_goes_before_one_that_a_lease_kept() -> None:
    """A lease that stood in the way of an eviction does not make its block the later one."""
    starts, leases = [0, 16, 16], [0, 1, 0]
    policy = lru(starts, leases)
    policy.stamp("a", [0, 1])
    assert victims(policy, 1) == [0]
    policy.stamp("a", [2])

    leases[1] = 0
    policy.released([1])

    assert victims(policy, 2) == [2, 1]


def test_copies_of_unknown_age_go_first() -> None:
    """A copy of a block whose age nobody knows may be evicted, before all others."""
    policy = lru([0, 0], [0, 0])
    policy.stamp("a", [0])
    policy.enter(OLDEST, [1])

    assert victims(policy, 2) == [1, 0]


TestLru = LruMachine.TestCase
TestLru.settings = settings(max_examples=examples(40), stateful_step_count=40, deadline=None)
