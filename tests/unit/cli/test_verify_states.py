"""Comparing a view with a node whose tiers are not ready."""

from kvtier.cli.checking.verdict import Verdict
from kvtier.v1.event_service_pb2 import State, TierState

from .listing_node import FakeNode, chain, error_of
from .node_log import TIER


async def test_a_tier_that_recovers_does_not_list_all_it_holds_yet() -> None:
    """That what it lists was told is no proof that all is in order: it cannot be told."""
    node = FakeNode("abc")
    node.state, node.reason = TierState.TIER_STATE_RECOVERING, "62 %"

    comparison = await node.compare()

    verdict = Verdict("there:1", comparison, node.ledger)
    verdicts = {record["tier"]: record["verdict"] for record in verdict.records(5)}
    assert verdicts == {TIER: "recovering", "gpu0": "silent"}
    assert verdict.only_recovering
    code, text = error_of(node, comparison)
    assert code == 1
    assert text == (
        f"there:1: the listing is not complete yet: tier {TIER} is recovering (62 %); "
        "check again when it is ready"
    )


async def test_what_differs_while_a_tier_recovers_differs() -> None:
    """A block that is listed and was never told is a difference, whatever is still to be found."""
    node = FakeNode("abc")
    node.state = TierState.TIER_STATE_RECOVERING
    node.change(store="d", tell=False)

    comparison = await node.compare()

    assert not Verdict("there:1", comparison, node.ledger).only_recovering
    assert error_of(node, comparison)[0] == 6


async def test_a_read_only_tier_is_compared() -> None:
    """Its listing and its events are as good as ever."""
    node = FakeNode("abc")
    node.state, node.reason = TierState.TIER_STATE_READ_ONLY, "no space left on device"

    comparison = await node.compare()

    (record, _) = Verdict("there:1", comparison, node.ledger).records(5)
    assert (record["verdict"], record["events"]) == ("equal", 3)


async def test_a_silent_tier_that_is_read_only_is_silent_all_the_same() -> None:
    """The stream says that it keeps no events, where the list of tiers says what ails it."""
    node = FakeNode("")
    node.held = chain("abc")
    node.state = TierState.TIER_STATE_READ_ONLY
    silent = State(tier=TIER, tier_state=TierState.TIER_STATE_SILENT)
    node.view.apply(node.log.message(state=silent))

    comparison = await node.compare()

    assert sorted(comparison.silent) == sorted([TIER, "gpu0"])
    assert not comparison.differs
