"""Room that is counted in bytes: never exceeded, and a refused offer changes nothing."""

import random

import pytest

from kvtier.server.leases import Lease
from kvtier.server.tiers.room import costs_of, fitting, lacking
from kvtier.server.tiers.table import READY
from kvtier.v1.block_pb2 import REMOVAL_REASON_DELETED, BlockRun
from kvtier.wire.errors import KvtierError, Reason
from tests.contract.support import evicted_hashes, namespace, run
from tests.lasting.conftest import MakeNode
from tests.lasting.tiers import GRAIN, fs_tier
from tests.model.check_tables import check_node
from tests.model.effort import examples
from tests.unit.server.support import TIER, LocalNode

SIZES = {"small": [64, 3 * GRAIN], "large": [GRAIN, 5 * GRAIN]}
Snapshot = tuple[object, ...]


def mixed(make_node: MakeNode, pages: int, policy: str = "lru") -> tuple[LocalNode, list[bytes]]:
    """A node with a tier of files, and namespaces whose blocks take one to six pages."""
    local = make_node(fs_tier(pages, TIER, policy=policy))
    known = [
        local.node.register(namespace(name, block_bytes=sizes)) for name, sizes in SIZES.items()
    ]
    return local, [each.fingerprint for each in known]


def snapshot(local: LocalNode) -> Snapshot:
    """All that an offer may change."""
    table, occupancy = local.tier.table, local.tier.occupancy
    counts = (occupancy.ready, occupancy.leased, occupancy.pending, occupancy.draining)
    return list(table.state), list(table.leases), table.used_bytes, counts, local.node.log.head


def offer(local: LocalNode, some: BlockRun, request: str) -> Lease | None:
    """Offer blocks; None when there is no room."""
    try:
        return local.prepare(some, request_id=request)[0]
    except KvtierError as error:
        if error.reason != Reason.TIER_FULL:
            raise
        return None


class Walk:
    """Random calls on the first tier of a node."""

    def __init__(self, local: LocalNode, known: list[bytes], rng: random.Random) -> None:
        self.refused = 0
        self._local, self._known, self._rng = local, known, rng
        self._open: list[Lease] = []
        self._pinned: list[int] = []

    def step(self) -> None:
        """Do one thing."""
        self._local.namespace = self._rng.choice(self._known)
        calls = [self._offer] * 6 + [self._complete] * 6 + [self._pin, self._unpin] * 2
        self._rng.choice([*calls, self._delete])()

    def end(self) -> None:
        """Let go of everything."""
        while self._open:
            self._complete()
        while self._pinned:
            self._unpin()

    def _offer(self) -> None:
        first = self._rng.randrange(40)
        blocks = range(first, first + self._rng.randint(1, 4))
        before = snapshot(self._local)
        some = run(*blocks, group=self._rng.randrange(2))
        lease = offer(self._local, some, self._rng.choice(["", "a", "b"]))
        if lease is None:
            self.refused += 1
            assert snapshot(self._local) == before
        else:
            self._open.append(lease)

    def _complete(self) -> None:
        if self._open:
            lease = self._open.pop(self._rng.randrange(len(self._open)))
            if self._rng.random() < 0.8:
                slots = list(lease.slots.values())
                self._local.tier.mark_written(slots, [0] * len(slots))
            self._local.complete(lease)

    def _pin(self) -> None:
        for slot in self._some_block():
            self._pinned.append(slot)
            self._local.tier.occupancy.hold([slot])

    def _unpin(self) -> None:
        if self._pinned:
            self._local.tier.occupancy.unpin([self._pinned.pop()])

    def _delete(self) -> None:
        self._local.tier.remove(self._some_block(), REMOVAL_REASON_DELETED)

    def _some_block(self) -> list[int]:
        state = self._local.tier.table.state
        readable = [slot for slot, each in enumerate(state) if each == READY]
        return [self._rng.choice(readable)] if readable else []


@pytest.mark.parametrize("policy", ["lru", "arc"])
@pytest.mark.parametrize("seed", range(4))
async def test_room_is_never_exceeded(make_node: MakeNode, policy: str, seed: int) -> None:
    """Whatever is offered, pinned, deleted or given up, in whatever sizes."""
    rng = random.Random(f"{policy} {seed}")
    local, known = mixed(make_node, 24, policy)
    walk = Walk(local, known, rng)

    for _ in range(examples(400)):
        walk.step()
        assert local.tier.table.used_bytes <= local.tier.capacity_bytes

    walk.end()
    check_node(local.node)
    assert walk.refused
    assert local.tier.counters.evicted


def test_an_offer_of_small_blocks_evicts_no_more_than_it_needs(make_node: MakeNode) -> None:
    """However large the largest block may be."""
    local, known = mixed(make_node, 24)
    local.namespace = known[0]
    for block in range(24):
        lease, _ = local.prepare(run(block))
        local.tier.mark_written(list(lease.slots.values()), [0])
        local.complete(lease)

    _, answer = local.prepare(run(*range(100, 103)))

    assert len(evicted_hashes(answer.evicted)) == 3
    assert local.tier.table.used_bytes == local.tier.capacity_bytes


def test_copies_take_the_room_of_their_own_blocks(make_node: MakeNode) -> None:
    """What fits, and what must go, is told by what each block takes."""
    local, known = mixed(make_node, 12)
    local.namespace = known[0]
    lease, _ = local.prepare(run(0, 1), run(2, 3, group=1))
    occupancy, slots = local.tier.occupancy, list(lease.slots.values())

    costs = costs_of(occupancy, local.tier.table, slots)

    assert costs == [GRAIN, GRAIN, 4 * GRAIN, 4 * GRAIN]
    assert local.tier.table.used_bytes == sum(costs)
    assert fitting(occupancy, costs) == 2
    assert fitting(occupancy, [3 * GRAIN, GRAIN]) == 0
    assert lacking(occupancy, [2 * GRAIN]) == 0
    assert lacking(occupancy, costs) == 2
    assert lacking(occupancy, costs, in_hand=slots[2:]) == 0


def test_small_blocks_that_are_leased_refuse_no_large_ones(make_node: MakeNode) -> None:
    """They count as what they take, also beside much larger ones."""
    local, (small, large) = mixed(make_node, 18)
    local.namespace = small
    for block in range(12):
        lease, _ = local.prepare(run(block))
        local.tier.mark_written(list(lease.slots.values()), [0])
        local.complete(lease)
    leased = [slot for slot, state in enumerate(local.tier.table.state) if state == READY][:6]
    local.tier.occupancy.hold(leased)

    local.namespace = large
    lease, answer = local.prepare(run(100, 101, group=1))

    assert len(lease.slots) == 2
    assert len(evicted_hashes(answer.evicted)) == 6
    assert all(local.tier.table.state[slot] == READY for slot in leased)
