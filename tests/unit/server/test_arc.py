"""The `arc` policy: exactly what a plain model of the paper does, whatever happens.

KVTIER_TEST_EFFORT=20 tries twenty times as many random sequences.
"""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kvtier.server.tiers.arc import ArcPolicy
from kvtier.server.tiers.ghosts import B1, B2
from kvtier.server.tiers.policy import Age, Columns, Stamps
from tests.model.effort import examples
from tests.model.plain_arc import PaperArc, PlainArc

SLOTS = 7
KEYS = [bytes([key]) for key in range(14)]
some_keys = st.lists(st.sampled_from(KEYS), min_size=1, max_size=5, unique=True)
positions = st.lists(st.integers(0, 3), min_size=5, max_size=5)
requests = st.sampled_from(["", "", "a", "b", "c"])


class Tier:
    """The columns of a tier and its policy, without any bytes."""

    def __init__(self, capacity: int) -> None:
        self.keys = [b""] * capacity
        self.starts = [0] * capacity
        self.leases = [0] * capacity
        self.slots: dict[bytes, int] = {}
        self.stamps = Stamps()
        columns = Columns(capacity, self.keys, self.starts, self.leases)
        self.policy = ArcPolicy(columns, self.stamps)
        self.policy.grow(capacity)

    @property
    def free(self) -> int:
        return len(self.keys) - len(self.slots)

    def place(self, keys: Sequence[bytes], starts: Sequence[int]) -> list[int]:
        """Give keys slots."""
        unused = sorted(set(range(len(self.keys))) - set(self.slots.values()))
        for key, start, slot in zip(keys, starts, unused, strict=False):
            self.slots[key] = slot
            self.keys[slot], self.starts[slot] = key, start
        return [self.slots[key] for key in keys]

    def free_up(self, slots: Sequence[int]) -> list[bytes]:
        """Take slots from their keys, which are returned."""
        keys = [self.keys[slot] for slot in slots]
        for key, slot in zip(keys, slots, strict=True):
            del self.slots[key]
            self.leases[slot] = 0
        return keys

    def ghosts(self, which: int) -> list[bytes]:
        """Return the keys of a list of ghosts, the oldest first."""
        ghosts, node, found = self.policy._ghosts, which, []
        while (node := ghosts._next[node]) != which:
            found.append(ghosts._keys[node])
        return found


class ArcMachine(RuleBasedStateMachine):
    """Drives the policy and the model alike, as a tier does."""

    def __init__(self) -> None:
        super().__init__()
        self.tier = Tier(SLOTS)
        self.model = PlainArc[bytes](SLOTS, self.start_of, lambda key: key)
        self.unused: list[int] = []

    def start_of(self, key: bytes) -> int:
        return self.tier.starts[self.tier.slots[key]]

    def may_go(self, key: bytes) -> bool:
        return not self.tier.leases[self.tier.slots[key]]

    def held(self) -> list[bytes]:
        return sorted(self.model.members())

    @rule(request_id=requests, keys=some_keys, starts=positions)
    def offer(self, request_id: str, keys: list[bytes], starts: list[int]) -> None:
        """Store what is absent of some keys, evicting what is needed, and use them all."""
        residents = [key for key in keys if key in self.tier.slots]
        fresh = [key for key in keys if key not in residents]
        candidates = [k for k in self.held() if self.may_go(k) and k not in residents]
        missing = len(fresh) - self.tier.free
        if missing > len(candidates):
            return
        if missing > 0:
            self.make_room(missing, request_id, residents, fresh)
        self.tier.place(fresh, starts)
        self.use(request_id, keys)

    def make_room(
        self, missing: int, request_id: str, residents: list[bytes], fresh: list[bytes]
    ) -> None:
        tier, policy = self.tier, self.tier.policy
        slots = [tier.slots[key] for key in residents]
        self.unused.append(tier.stamps.next())
        self.model.stamps += 1
        expected = self.model.evict(
            missing, lambda k: self.may_go(k) and k not in residents, request_id, residents, fresh
        )
        policy.expect(request_id, slots, fresh)
        for slot in slots:
            tier.leases[slot] += 1
        self.take(missing, expected)
        for slot in slots:
            tier.leases[slot] -= 1
        policy.released(slots)

    def take(self, count: int, expected: list[bytes]) -> None:
        """Take victims: they are those that are expected, and have the ages that they had."""
        held = list(self.tier.slots.values())
        ages = {slot: age for age, slots in self.tier.policy.ages(held) for slot in slots}
        taken = self.tier.policy.victims(count)
        chosen = [slot for _, slots in taken for slot in slots]
        assert all(ages[slot] == age for age, slots in taken for slot in slots)
        assert self.tier.free_up(chosen) == expected
        assert not self.tier.policy.ages(chosen)

    def use(self, request_id: str, keys: Sequence[bytes]) -> None:
        self.model.stamp(request_id, keys)
        self.tier.policy.stamp(request_id, [self.tier.slots[key] for key in keys])

    @precondition(lambda self: self.held())
    @rule(request_id=requests, data=st.data())
    def touch(self, request_id: str, data: st.DataObject) -> None:
        """Use some keys that are there."""
        some = st.lists(st.sampled_from(self.held()), unique=True, min_size=1, max_size=4)
        self.use(request_id, data.draw(some, "keys"))

    @rule(request_id=requests)
    def touch_nothing(self, request_id: str) -> None:
        """A call that names nothing that is there moves its groups to the front all the same."""
        self.use(request_id, [])

    @precondition(lambda self: self.unused)
    @rule(data=st.data(), keys=some_keys, starts=positions)
    def enter(self, data: st.DataObject, keys: list[bytes], starts: list[int]) -> None:
        """Take in copies, for which there is room, as old as what they were copied from."""
        absent = [key for key in keys if key not in self.tier.slots][: self.tier.free]
        known = [key for key in keys if key in self.tier.slots]
        if not absent + known:
            return
        stamp = data.draw(st.sampled_from(self.unused), "stamp")
        self.unused.remove(stamp)
        name = data.draw(st.sampled_from(["a", "b", f"anonymous {stamp}"]), "group")
        self.model.enter(name, stamp, self._placed(absent, starts) + known)
        self.tier.policy.enter(Age(name, stamp), [self.tier.slots[k] for k in absent + known])

    def _placed(self, keys: list[bytes], starts: list[int]) -> list[bytes]:
        self.tier.place(keys, starts)
        return keys

    @precondition(lambda self: any(map(self.may_go, self.held())))
    @rule(data=st.data())
    def evict(self, data: st.DataObject) -> None:
        """Make room for nothing in particular."""
        candidates = sum(map(self.may_go, self.held()))
        count = data.draw(st.integers(1, candidates), "count")
        size = len(self.model.t1.members())
        expected = []
        for _ in range(count):
            expected.append(self.model._replace(size, "", self.may_go))
            size = len(self.model.t1.members())
        self.take(count, expected)

    @precondition(lambda self: self.held())
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        """Free some slots for another reason."""
        keys = data.draw(st.lists(st.sampled_from(self.held()), unique=True), "keys")
        self.tier.policy.forget([self.tier.slots[key] for key in keys])
        self.model.forget(keys)
        self.tier.free_up([self.tier.slots[key] for key in keys])

    @precondition(lambda self: self.held())
    @rule(data=st.data())
    def lease(self, data: st.DataObject) -> None:
        """Take a lease on some blocks."""
        for key in data.draw(st.lists(st.sampled_from(self.held()), unique=True), "keys"):
            self.tier.leases[self.tier.slots[key]] += 1

    @precondition(lambda self: any(self.tier.leases))
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        """End a lease on some blocks; others may be left."""
        leased = [slot for slot, count in enumerate(self.tier.leases) if count]
        slots = data.draw(st.lists(st.sampled_from(leased), unique=True), "slots")
        for slot in slots:
            self.tier.leases[slot] -= 1
        self.tier.policy.released(slots)

    @invariant()
    def both_know_the_same(self) -> None:
        """The lists, the ghosts in their order, and the target are those of the model."""
        policy, model = self.tier.policy, self.model
        for which, plain in enumerate((model.t1, model.t2)):
            in_list = {k for k, slot in self.tier.slots.items() if policy._where[slot] == which}
            assert in_list == set(plain.members())
            assert policy._sizes[which] == len(in_list)
        assert (self.tier.ghosts(B1), self.tier.ghosts(B2)) == (model.b1, model.b2)
        assert policy._ghosts.sizes == [len(model.b1), len(model.b2)]
        assert policy._target == model.p
        assert {self.tier.keys[slot] for slot in policy._returned} == set(model.returned)

    @invariant()
    def the_ghosts_are_bounded(self) -> None:
        """The lists obey the bounds of the paper, and no key is in two of them."""
        t1, b1, b2 = len(self.model.t1.members()), self.tier.ghosts(B1), self.tier.ghosts(B2)
        assert t1 + len(b1) <= SLOTS
        assert len(self.held()) + len(b1) + len(b2) <= 2 * SLOTS
        assert len({*self.held(), *b1, *b2}) == len(self.held()) + len(b1) + len(b2)
        assert len(self.tier.policy._ghosts._nodes) == len(b1) + len(b2)
        assert len(self.tier.policy._ghosts._keys) <= 2 * SLOTS + 2


@settings(max_examples=examples(200), deadline=None)
@given(capacity=st.integers(1, 6), pages=st.lists(st.integers(0, 11), max_size=120))
def test_one_block_at_a_time_it_is_the_algorithm_of_the_paper(
    capacity: int, pages: list[int]
) -> None:
    """Requests for one block each leave the lists, the ghosts and the target of the paper."""
    tier, paper = Tier(capacity), PaperArc(capacity)

    for page in pages:
        key = bytes([page])
        if key not in tier.slots:
            if not tier.free:
                tier.policy.expect("", [], [key])
                tier.free_up([slot for _, slots in tier.policy.victims(1) for slot in slots])
            tier.place([key], [0])
        tier.policy.stamp("", [tier.slots[key]])
        paper.request(page)

        where = tier.policy._where
        once, again = (
            {k[0] for k, slot in tier.slots.items() if where[slot] == which} for which in (0, 1)
        )
        assert (once, again) == (set(paper.t1), set(paper.t2))
        assert [k[0] for k in tier.ghosts(B1)] == paper.b1
        assert [k[0] for k in tier.ghosts(B2)] == paper.b2
        assert tier.policy._target == paper.p


def evicting(tier: Tier, request_id: str, *names: int) -> list[int]:
    """Offer blocks that are absent, all of which need room; return what went."""
    keys = [bytes([name]) for name in names]
    tier.policy.expect(request_id, [], keys)
    gone = tier.free_up([slot for _, slots in tier.policy.victims(len(keys)) for slot in slots])
    tier.policy.stamp(request_id, tier.place(keys, [0] * len(keys)))
    return [key[0] for key in gone]


def holding(request_id: str, *names: int) -> Tier:
    """A tier that is full of blocks that one request used."""
    tier = Tier(len(names))
    tier.policy.stamp(request_id, tier.place([bytes([name]) for name in names], range(9)))
    return tier


def test_a_request_that_names_its_blocks_again_uses_them_once() -> None:
    """Only another request makes a block one that is seen again, which outlives new ones."""
    tier = holding("a", 1, 2, 3)
    tier.policy.stamp("a", [tier.slots[bytes([n])] for n in (1, 2, 3)])
    tier.policy.stamp("b", [tier.slots[bytes([1])]])

    assert evicting(tier, "c", 4) + evicting(tier, "d", 5) + evicting(tier, "e", 6) == [3, 2, 4]


def test_a_request_moves_the_target_once() -> None:
    """However many ghosts a request names, and in however many calls, it adapts once."""
    tier = holding("a", 1, 2, 3, 4)
    tier.policy.stamp("b", [tier.slots[bytes([n])] for n in (1, 2)])
    evicting(tier, "c", 5, 6)

    evicting(tier, "d", 3)
    evicting(tier, "d", 4)

    assert tier.policy._target == 1.0


def test_a_copy_of_a_ghost_is_one_that_comes_back_once_it_is_used() -> None:
    """A block that is copied back from another tier adapts as a ghost does, once it is used."""
    tier = holding("a", 1, 2, 3)
    tier.policy.stamp("b", [tier.slots[bytes([1])]])
    (gone,) = evicting(tier, "c", 4)
    tier.policy.forget([tier.slots[bytes([4])]])
    tier.free_up([tier.slots[bytes([4])]])
    (slot,) = tier.place([bytes([gone])], [0])

    tier.policy.enter(Age("d", tier.stamps.next()), [slot])
    assert (tier.policy._where[slot], tier.policy._target) == (0, 0.0)
    tier.policy.stamp("d", [slot])

    assert (tier.policy._where[slot], tier.policy._target) == (1, 1.0)


TestArc = ArcMachine.TestCase
TestArc.settings = settings(max_examples=examples(80), stateful_step_count=60, deadline=None)
