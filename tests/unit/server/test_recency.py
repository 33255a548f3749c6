"""Which calls count as a use, and of what."""

from collections.abc import Callable

import pytest

from kvtier.v1.tier_service_pb2 import (
    PrepareLoadRequest,
    ReleaseLeasesRequest,
    TouchBlocksRequest,
)
from tests.contract.support import block_hash, hashes, run

from .support import TIER, LocalNode, at_once


def touch(node: LocalNode, request_id: str, *blocks: object) -> None:
    """Touch blocks for a request."""
    node.tiers.touch_blocks(
        TouchBlocksRequest(
            namespace=node.namespace, blocks=node.blocks(*blocks), request_id=request_id
        )
    )


def load(node: LocalNode, request_id: str, *blocks: object) -> None:
    """Ask for a load lease for a request."""
    request = PrepareLoadRequest(
        tier=TIER,
        namespace=node.namespace,
        blocks=node.blocks(*blocks),
        lease_id=node.new_id(),
        owner="engine",
        request_id=request_id,
    )
    at_once(node.tiers.prepare_load(request))


@pytest.mark.parametrize("use", [touch, load])
def test_a_call_that_finds_nothing_makes_its_request_the_latest_all_the_same(
    node: LocalNode, use: Callable[..., None]
) -> None:
    """Each stamping call moves its request's blocks to the front, whatever it names."""
    node.store("a", "b", request_id="first")
    node.store("c", "d", request_id="second")

    use(node, "first", "absent")

    assert node.store("e", "f", "g") == [hashes("d", "c") + block_hash("b")]


def test_a_lookup_and_a_completion_use_nothing(node: LocalNode) -> None:
    """Only offers, loads and touches count."""
    lease, _ = node.prepare(run("a"), request_id="first")
    node.store("b", request_id="second")
    node.fill(lease, ["a"])
    node.complete(lease)
    node.look_up("a")

    assert node.store("w", "x", "y") == [block_hash("a")]


def test_an_offer_uses_what_is_there_already(node: LocalNode) -> None:
    """A block that an offer found present is as recent as those that it stored."""
    node.store("a", request_id="first")
    node.store("b", request_id="second")
    node.store("a", "c", request_id="third")

    assert node.store("w", "x") == [block_hash("b")]
    assert node.look_up("a", "c", "w", "x") == ["HIT"] * 4


def test_a_block_written_while_others_were_evicted_goes_in_its_turn(node: LocalNode) -> None:
    """What could not be evicted while it was written is as old as its request once it is whole."""
    lease, _ = node.prepare(run("a"), request_id="old")
    node.store("b", "c", "d", request_id="new")
    assert node.store("e") == [block_hash("d")]

    node.fill(lease, ["a"])
    node.complete(lease)

    assert node.store("f") == [block_hash("a")]


def test_a_block_loaded_while_others_were_evicted_goes_in_its_turn(node: LocalNode) -> None:
    """What a load lease kept is as old as its request when the lease ends."""
    node.store("a", request_id="old")
    load(node, "old", "a")
    node.store("b", "c", "d", request_id="new")
    assert node.store("e") == [block_hash("d")]

    node.tiers.release_leases(ReleaseLeasesRequest(owner="engine"))

    assert node.store("f") == [block_hash("a")]
