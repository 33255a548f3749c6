"""Deciding what to bring from where."""

from kvtier.client import TierOf
from kvtier.client.proxy.promotions.admission import Admission
from kvtier.client.proxy.promotions.planning import (
    HIT,
    HIT_PENDING,
    MISS,
    RETRY,
    choose,
    lacking,
    tell,
)

P, A, A_GPU, B = TierOf("p", "cpu0"), TierOf("a", "cpu0"), TierOf("a", "gpu0"), TierOf("b", "cpu0")
ORDER = [A_GPU, A, B]


def nobody_barred(place: int, node: str) -> bool:
    return False


def test_only_what_the_primary_has_in_no_tier_is_lacking() -> None:
    """What it has below without room above would not come from elsewhere either."""
    results = [HIT, MISS, RETRY, RETRY, HIT_PENDING]
    holders = [(P,), (A,), (P, A), (A,), ()]

    assert lacking(results, holders, "p") == [1, 3]


def test_the_first_in_order_that_has_a_block_gives_it() -> None:
    """Of its tiers the fastest; a block that nobody has is left out."""
    holders = [(B, A), (A, A_GPU, B), (B,), (P,), ()]

    assert choose(range(5), holders, ORDER, nobody_barred) == {A: [0], A_GPU: [1], B: [2]}


def test_who_is_barred_is_passed_over() -> None:
    """For that block alone."""
    holders = [(A, B), (A, B)]

    chosen = choose([0, 1], holders, ORDER, lambda place, node: (place, node) == (0, "a"))

    assert chosen == {B: [0], A: [1]}


def test_only_who_may_be_asked_is_asked() -> None:
    """One that is not in the order is not."""
    assert choose([0], [(A, B)], [B], nobody_barred) == {B: [0]}


def test_what_came_and_is_gone_again_is_to_be_asked_for_again() -> None:
    """The lease has the last word on a hit, and what was found out on a miss."""
    results = [HIT, MISS, MISS, MISS, RETRY, MISS]
    brought = {0: MISS, 1: HIT, 2: RETRY, 3: MISS, 4: MISS}

    assert tell(results, brought) == [HIT, RETRY, RETRY, MISS, RETRY, MISS]


def test_admission_is_by_blocks_and_bytes() -> None:
    """What leaves makes room."""
    admission = Admission(blocks=3, size=100)

    entered = [admission.enter(size) for size in (40, 40, 40, 20, 1)]
    admission.leave(40)

    assert entered == [True, True, False, True, False]
    assert admission.enter(40)


def test_a_block_beyond_the_bound_goes_alone() -> None:
    """Else it would never go."""
    admission = Admission(blocks=8, size=10)

    assert [admission.enter(100), admission.enter(1)] == [True, False]
