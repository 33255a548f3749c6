"""What an offer finds in a tier, and what it enters there."""

from typing import Any, SupportsIndex

import pytest

from kvtier.server.tiers.offer import Run, plan_offer
from kvtier.v1.block_pb2 import BlockRun
from kvtier.v1.result_pb2 import StoreOutcome
from kvtier.v1.tier_service_pb2 import (
    TouchBlocksRequest,
)
from kvtier.wire.errors import KvtierError, Reason
from tests.contract.support import TOKENS, block_hash, cpu_tier, namespace, run, words

from .conftest import MakeNode
from .support import LocalNode


def outcomes(node: LocalNode, *runs: BlockRun) -> list[str]:
    """Offer runs and return the outcome of each block."""
    _, answer = node.prepare(*runs)
    return words(StoreOutcome, answer.outcomes)


def test_an_offer_is_told_what_is_there_and_what_is_being_written(node: LocalNode) -> None:
    """Readable blocks are PRESENT, those of an open lease PENDING, all others WRITE."""
    node.store("a")
    node.prepare(run("a", "b"))

    assert outcomes(node, run("a", "b", "c")) == ["PRESENT", "PENDING", "WRITE"]
    assert node.gauges() == {"ready": 1, "pending": 2, "free": 1}


def test_a_block_offered_twice_takes_one_slot(node: LocalNode) -> None:
    """Every place of a duplicate is told the same."""
    assert outcomes(node, run("a", "b", "a"), run("b")) == ["WRITE"] * 4
    assert node.gauges() == {"pending": 2, "free": 2}


@pytest.mark.parametrize("state", ["readable", "being written"])
@pytest.mark.parametrize(
    "other",
    [
        run("b", after="x"),
        run("b"),
        run("b", after="a", start=2 * TOKENS),
    ],
    ids=["parent", "no parent", "position"],
)
def test_a_resident_block_with_another_place_in_its_chain_is_a_mismatch(
    node: LocalNode, state: str, other: BlockRun
) -> None:
    """A block that is there under another parent or position is told, and left as it is."""
    node.store("a") if state == "readable" else node.prepare(run("a"))
    lease, _ = node.prepare(run("b", after="a"))
    if state == "readable":
        node.fill(lease, ["b"])
        node.complete(lease)
        node.tiers.touch_blocks(
            TouchBlocksRequest(namespace=node.namespace, blocks=node.blocks("a"))
        )
    before = node.gauges()
    if other.start_position == 2 * TOKENS:
        other.parent_block_hash = block_hash("elsewhere")

    assert outcomes(node, other) == ["MISMATCH"]

    assert node.gauges() == before
    assert node.tier.counters.mismatched == 1


def test_other_token_ids_are_a_mismatch_where_both_are_known(make_node: MakeNode) -> None:
    """Token ids are compared only when the block has some and the offer has some."""
    node = make_node()
    keeps = namespace("keeps", keep_token_ids=True)
    node.namespace = node.node.register(keeps).fingerprint
    ids, others = [1] * TOKENS, [2] * TOKENS
    node.store("with", token_ids=ids)
    node.store("without")

    assert outcomes(node, run("with", token_ids=ids)) == ["PRESENT"]
    assert outcomes(node, run("with", token_ids=others)) == ["MISMATCH"]
    assert outcomes(node, run("with")) == ["PRESENT"]
    assert outcomes(node, run("without", token_ids=others)) == ["PRESENT"]


def test_a_run_that_leaves_a_gap_after_its_parent_is_refused(node: LocalNode) -> None:
    """A parent that is there says where its child starts."""
    node.store("a")

    with pytest.raises(KvtierError, match=f"offer the run at {TOKENS}") as error:
        node.prepare(run("z"), run("b", after="a", start=3 * TOKENS))

    assert error.value.code.name == "INVALID_ARGUMENT"
    assert node.gauges() == {"ready": 1, "free": 3}
    assert len(node.node.leases) == 0


def test_an_offer_without_room_changes_nothing(node: LocalNode) -> None:
    """There is room for all of an offer, or the offer has no effect at all."""
    node.store("a", "b", request_id="old")
    node.store("c", request_id="new")
    head = node.node.log.head

    for _ in range(2):
        with pytest.raises(KvtierError, match="of its 4 slots 1 are free and 2 may be") as error:
            node.prepare(run("a", "w", "x", "y", "z"), request_id="old")

    assert (error.value.code.name, error.value.reason) == ("RESOURCE_EXHAUSTED", Reason.TIER_FULL)
    assert error.value.retry_after
    assert node.node.log.head == head
    assert node.gauges() == {"ready": 3, "free": 1}
    assert node.tier.counters.refused == 2
    assert node.store("d", "e") == [block_hash("b")], "the oldest request is still the oldest"


def test_an_offer_never_evicts_its_own_blocks(node: LocalNode) -> None:
    """Members of an offer that are there are spared, also when they are oldest or mismatched."""
    node.store("a")
    node.store("m")
    node.store("c")
    node.store("d")

    evicted = node.prepare(run("a", "x"), run("m", start=TOKENS, after="n"))[1].evicted

    assert [each.blocks.block_hashes for each in evicted] == [block_hash("c")]


class Counted(list[int]):
    """A list that counts how many of its entries are read."""

    reads = 0

    def __iter__(self) -> Any:
        self.reads += len(self)
        return super().__iter__()

    def __getitem__(self, which: SupportsIndex | slice) -> Any:
        found = super().__getitem__(which)
        self.reads += len(found) if isinstance(found, list) else 1
        return found


def test_entering_many_runs_reads_each_block_a_few_times(make_node: MakeNode) -> None:
    """The work on an offer grows with its blocks, not with its blocks times its runs."""
    blocks = 512
    node = make_node(cpu_tier(blocks))
    info = node.node.registry.get(node.namespace)
    space = node.node.spaces.use(info, 0, b"")
    plan = plan_offer(node.tier.table, [Run(space, [block_hash(i)]) for i in range(blocks)])
    plan.fresh = counted = Counted(plan.fresh)

    node.tier.occupancy.enter(plan, node.tier.occupancy.take(blocks))

    assert node.gauges() == {"pending": blocks}
    assert counted.reads < 20 * blocks
