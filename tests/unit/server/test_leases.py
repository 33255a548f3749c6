"""Leases: generations, expiry, and what is remembered of those that ended."""

import sys
from contextvars import copy_context
from itertools import count

import pytest

from kvtier.server.accounts import Accounts
from kvtier.server.callers import caller
from kvtier.server.clock import ManualClock
from kvtier.server.leases import LOAD, STORE, End, Lease, Leases
from kvtier.server.mappings import Mappings
from kvtier.server.quarantine import Quarantine
from kvtier.v1 import block_pb2
from kvtier.wire.errors import KvtierError, Reason

from .support import LocalNode

REMEMBERED_SECONDS = 300
REMEMBERED_BYTES = 16 << 20


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def leases(clock: ManualClock) -> Leases:
    accounts = Accounts(most=6, per_caller=4, per_owner=3, leased_bytes=1000, pinned_bytes=100)
    quarantine = Quarantine(Mappings(1), clock, 60.0)
    return Leases(clock, first_generation=500, accounts=accounts, quarantine=quarantine)


class Opener:
    """Opens leases that hold nothing."""

    def __init__(self, leases: Leases, node: LocalNode) -> None:
        self._leases = leases
        self._node = node
        self._numbers = count()

    def __call__(
        self,
        lease_id: bytes = b"",
        *,
        ttl: float = 30,
        owner: str = "engine",
        kind: int = STORE,
        answer: bytes = b"answer",
    ) -> Lease:
        namespace = self._node.node.registry.get(self._node.namespace)
        lease = Lease(
            lease_id or next(self._numbers).to_bytes(16, "big"),
            owner,
            LOAD if kind == LOAD else STORE,
            self._node.tier,
            namespace,
            b"digest",
            {},
            (),
            {},
            answer=answer,
        )
        self._leases.open(lease, ttl)
        return lease


@pytest.fixture
def open_lease(leases: Leases, node: LocalNode) -> Opener:
    return Opener(leases, node)


def reason_of(error: pytest.ExceptionInfo[KvtierError]) -> tuple[str, str]:
    """Return status and reason of an error."""
    return error.value.code.name, error.value.reason


def test_generations_ascend_from_the_first(open_lease: Opener) -> None:
    """Each lease has a generation of its own, from a start that differs with each node."""
    assert [open_lease().generation for _ in range(3)] == [500, 501, 502]


def test_an_open_lease_is_found_by_id_and_generation(leases: Leases, open_lease: Opener) -> None:
    """The reference that the answer gave finds the lease."""
    lease = open_lease()

    assert leases.find(lease.reference()) is lease
    assert leases.find(lease.reference(), STORE) is lease


def test_another_generation_is_refused(leases: Leases, open_lease: Opener) -> None:
    """A reference from another life of the lease is ABORTED."""
    lease = open_lease()

    with pytest.raises(KvtierError) as error:
        leases.find(block_pb2.Lease(id=lease.id, generation=lease.generation + 1))

    assert reason_of(error) == ("ABORTED", Reason.LEASE_ENDED)


def test_a_lease_of_another_kind_is_not_known(leases: Leases, open_lease: Opener) -> None:
    """A store lease is no load lease, open or ended."""
    lease = open_lease(kind=STORE)

    for _ in range(2):
        with pytest.raises(KvtierError) as error:
            leases.find(lease.reference(), LOAD)
        assert reason_of(error) == ("NOT_FOUND", Reason.LEASE_UNKNOWN)
        if leases.get(lease.id):
            leases.let_go(lease, End.RELEASED)


def test_a_lease_expires_at_its_time_and_not_before(
    leases: Leases, open_lease: Opener, clock: ManualClock
) -> None:
    """A lease lives for its time to live, to the moment."""
    lease = open_lease(ttl=2)

    clock.advance(1.5)
    leases.expire()
    assert len(leases) == 1
    clock.advance(0.5)
    leases.expire()

    assert len(leases) == 0
    with pytest.raises(KvtierError, match="expired") as error:
        leases.find(lease.reference())
    assert reason_of(error) == ("ABORTED", Reason.LEASE_ENDED)


@pytest.mark.parametrize("renewals", [[5.0], [1.0], [9.0, 1.0], [1.0, 9.0], [1.0, 9.0, 2.0, 7.0]])
def test_the_last_renewal_decides(
    leases: Leases, open_lease: Opener, clock: ManualClock, renewals: list[float]
) -> None:
    """A lease may be renewed to end later or sooner; only the last renewal counts."""
    lease = open_lease(ttl=3)
    for ttl in renewals:
        clock.advance(0.25)
        leases.renew(lease, ttl)

    clock.advance(renewals[-1] - 0.25)
    leases.expire()
    assert leases.get(lease.id) is lease
    clock.advance(0.25)
    leases.expire()

    assert leases.get(lease.id) is None


def test_leases_expire_in_the_order_of_their_times(
    leases: Leases, open_lease: Opener, clock: ManualClock
) -> None:
    """Expiry takes those whose time has come, whatever the order in which they were taken."""
    late, soon, renewed = open_lease(ttl=9), open_lease(ttl=1), open_lease(ttl=1)
    leases.renew(renewed, 5)

    clock.advance(2)
    leases.expire()

    assert [leases.get(each.id) for each in (late, soon, renewed)] == [late, None, renewed]


def test_renewing_often_costs_no_memory(
    leases: Leases, open_lease: Opener, clock: ManualClock
) -> None:
    """A long transfer that renews with every message leaves no trail of old expiry times."""
    lease = open_lease(ttl=30)
    for _ in range(1000):
        clock.advance(0.01)
        leases.renew(lease, 30)

    assert len(leases._expiries) == 1


def test_an_ended_lease_is_not_kept_alive_by_its_expiry(leases: Leases, open_lease: Opener) -> None:
    """What a lease held in memory is free when it ends, not when it would have expired."""
    lease = open_lease(ttl=300)
    before = sys.getrefcount(lease)

    leases.let_go(lease, End.RELEASED)

    assert before - sys.getrefcount(lease) == 2, "neither by id nor by owner"
    assert sys.getrefcount(lease) == 2, "only this test has it"


def test_an_owner_has_a_limit(leases: Leases, open_lease: Opener) -> None:
    """An owner at the limit is refused until a lease of theirs ends; others are not."""
    mine = [open_lease() for _ in range(3)]

    leases.room_of("another")
    with pytest.raises(KvtierError, match="3 open leases") as error:
        leases.room_of("engine")
    leases.let_go(mine[0], End.RELEASED)

    leases.room_of("engine")
    assert reason_of(error) == ("RESOURCE_EXHAUSTED", Reason.LEASE_LIMIT)
    assert error.value.retry_after


def test_a_caller_has_a_limit_whatever_owners_it_names(leases: Leases, open_lease: Opener) -> None:
    """Others are not refused, nor is the node itself; a lease that ended is not counted."""

    def greedy() -> Lease:
        caller.set("greedy")
        *_, last = [open_lease(owner=f"engine-{number}") for number in range(4)]
        with pytest.raises(KvtierError) as error:
            leases.room_of("engine-5")
        assert reason_of(error) == ("RESOURCE_EXHAUSTED", Reason.LEASE_LIMIT)
        assert error.value.metadata == {"limit": "leases_per_caller"}
        return last

    context = copy_context()
    last = context.run(greedy)

    leases.room_of("engine-5")
    leases.let_go(last, End.RELEASED)
    context.run(leases.room_of, "engine-5")


def test_all_owners_together_have_a_limit(leases: Leases, open_lease: Opener) -> None:
    """Pins have one of their own beside it."""
    last = [open_lease(owner=f"engine-{number}") for number in range(6)][-1]

    leases.room_of("another", pin=True)
    with pytest.raises(KvtierError, match="6 open leases") as error:
        leases.room_of("another")
    leases.let_go(last, End.EXPIRED)

    leases.room_of("another")
    assert error.value.metadata == {"limit": "leases"}


def test_leases_are_listed_by_owner(leases: Leases, open_lease: Opener) -> None:
    """An owner's open leases are found; ended ones and others' are not."""
    kept, ended = open_lease(owner="a"), open_lease(owner="a")
    open_lease(owner="b")

    leases.let_go(ended, End.RELEASED)

    assert leases.accounts.of_owner("a") == [kept]
    assert leases.accounts.of_owner("c") == []


def test_a_repeated_request_gets_the_first_answer(leases: Leases, open_lease: Opener) -> None:
    """The same id with the same request is answered alike, while open and after the end."""
    lease = open_lease(answer=b"granted")

    while_open = leases.first_answer(lease.id, b"digest")
    leases.let_go(lease, End.RELEASED)

    assert while_open == leases.first_answer(lease.id, b"digest") == b"granted"
    assert leases.first_answer(b"new", b"digest") is None


def test_an_id_serves_one_request(leases: Leases, open_lease: Opener) -> None:
    """The same id with another request is refused, while open and after the end."""
    lease = open_lease()

    for _ in range(2):
        with pytest.raises(KvtierError) as error:
            leases.first_answer(lease.id, b"other")
        assert reason_of(error) == ("FAILED_PRECONDITION", Reason.LEASE_REUSED)
        if leases.get(lease.id):
            leases.let_go(lease, End.RELEASED)


@pytest.mark.parametrize("how", [End.EXPIRED, End.CLEARED])
def test_the_answer_of_a_lease_that_was_lost_is_not_repeated(
    leases: Leases, open_lease: Opener, how: End
) -> None:
    """A caller that repeats its request too late learns that the lease is gone."""
    lease = open_lease()
    leases.let_go(lease, how)

    with pytest.raises(KvtierError, match=how.value) as error:
        leases.first_answer(lease.id, b"digest")

    assert reason_of(error) == ("ABORTED", Reason.LEASE_ENDED)


def test_the_outcome_is_told_again_to_the_same_generation_and_kind_only(
    leases: Leases, open_lease: Opener
) -> None:
    """A repeated completion gets the first outcome; another life or kind does not."""
    lease = open_lease()
    reference = lease.reference()
    leases.end(lease, End.COMPLETED, b"outcome")
    other = block_pb2.Lease(id=reference.id, generation=reference.generation + 1)

    assert leases.first_outcome(reference, STORE) == b"outcome"
    assert leases.first_outcome(other, STORE) is None
    assert leases.first_outcome(reference, LOAD) is None


def test_a_released_lease_has_no_outcome(leases: Leases, open_lease: Opener) -> None:
    """A release is no completion."""
    lease = open_lease()

    leases.let_go(lease, End.RELEASED)

    assert leases.first_outcome(lease.reference(), STORE) is None


def test_an_ended_lease_is_remembered_for_five_minutes(
    leases: Leases, open_lease: Opener, clock: ManualClock
) -> None:
    """After that its id is as good as new."""
    lease = open_lease()
    leases.let_go(lease, End.RELEASED)

    clock.advance(REMEMBERED_SECONDS - 1)
    leases.expire()
    assert leases.knows(lease.id)
    clock.advance(1)
    leases.expire()

    assert not leases.knows(lease.id)
    assert leases.first_answer(lease.id, b"digest") is None


def test_memory_of_ended_leases_is_bounded(leases: Leases, open_lease: Opener) -> None:
    """Large answers push out the oldest ended leases before their time, and only those."""
    answer = bytes(1 << 20)
    ended = []
    for _ in range(40):
        lease = open_lease(answer=answer)
        leases.end(lease, End.COMPLETED, b"outcome")
        ended.append(lease.id)

    known = [leases.knows(lease_id) for lease_id in ended]

    assert known == sorted(known), "the oldest go first"
    assert known.count(True) == REMEMBERED_BYTES // len(answer) - 1


def test_many_small_ended_leases_are_bounded_too(leases: Leases, open_lease: Opener) -> None:
    """What an entry itself costs is counted: an empty answer is not free."""
    for _ in range(60_000):
        leases.end(open_lease(answer=b""), End.COMPLETED)

    assert len(leases._ended) < 45_000
    assert leases._ended_bytes == sum(each.size() for each in leases._ended.values())
