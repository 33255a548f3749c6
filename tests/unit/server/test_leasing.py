"""Renewing and releasing leases, and how long one lives that was not told how long."""

import pytest

from kvtier.v1 import block_pb2
from kvtier.v1.result_pb2 import LeaseResult
from kvtier.v1.tier_service_pb2 import (
    ReleaseLeasesRequest,
    RenewLeasesRequest,
)
from kvtier.wire.errors import KvtierError
from tests.contract.support import run, words

from .conftest import MakeNode
from .support import LocalNode


@pytest.mark.parametrize("lease_id", [b"", b"short", bytes(17)])
def test_one_malformed_id_ends_no_lease(node: LocalNode, lease_id: bytes) -> None:
    """A request that is refused changed nothing, whatever came before the bad value."""
    lease, _ = node.prepare(run("a"))
    bad = block_pb2.Lease(id=lease_id)

    with pytest.raises(KvtierError, match="lease id"):
        node.tiers.release_leases(
            ReleaseLeasesRequest(leases=[lease.reference(), bad], owner=lease.owner)
        )

    assert node.node.leases.get(lease.id) is lease
    assert node.gauges() == {"pending": 1, "free": 3}


def test_one_malformed_id_renews_no_lease(node: LocalNode) -> None:
    """A renewal that is refused changed no lease's time."""
    lease, _ = node.prepare(run("a"))
    expires = lease.expires
    node.clock.advance(10)

    with pytest.raises(KvtierError, match="lease id"):
        node.tiers.renew_leases(
            RenewLeasesRequest(leases=[lease.reference(), block_pb2.Lease(id=b"short")])
        )

    assert lease.expires == expires


def test_each_lease_of_a_release_has_its_own_result(node: LocalNode) -> None:
    """Unknown ids and wrong generations do not keep the others from being released."""
    lease, ended, other = (node.prepare(run(block))[0] for block in "abc")
    references = [each.reference() for each in (lease, ended, other)]
    node.tiers.release_leases(ReleaseLeasesRequest(leases=[references[1]]))
    references[2].generation += 1

    answer = node.tiers.release_leases(
        ReleaseLeasesRequest(leases=[*references, block_pb2.Lease(id=bytes(16)), references[0]])
    )

    assert words(LeaseResult, answer.results) == [
        "OK",
        "OK",
        "WRONG_GENERATION",
        "NOT_FOUND",
        "OK",
    ]
    assert node.gauges() == {"pending": 1, "free": 3}


def test_all_leases_of_an_owner_are_released(node: LocalNode) -> None:
    """Releasing by owner ends all of theirs and nobody else's."""
    node.prepare(run("a"), owner="dead")
    node.prepare(run("b"), owner="dead")
    kept, _ = node.prepare(run("c"), owner="alive")

    answer = node.tiers.release_leases(ReleaseLeasesRequest(owner="dead"))

    assert answer.owner_leases == 2
    assert list(node.node.leases) == [kept]
    assert node.gauges() == {"pending": 1, "free": 3}


@pytest.mark.parametrize(("longest", "lives"), [(300, 30), (10, 10)])
def test_a_lease_lives_for_the_default_within_the_limit(
    make_node: MakeNode, longest: float, lives: float
) -> None:
    """Without a time to live a lease gets 30 s, or the longest that the node allows."""
    node = make_node(limits={"lease_ttl_max": longest})

    lease, answer = node.prepare(run("a"))

    assert lease.expires - node.clock.monotonic() == lives
    assert answer.ttl.seconds == lives
