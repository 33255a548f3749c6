"""Rates from counters, and a picture of nodes and tiers."""

from typing import Any

import pytest

from kvtier.cli.options import Settings
from kvtier.cli.output.messages import to_record
from kvtier.cli.top.frame import bar, frame
from kvtier.cli.top.rates import Sample, with_rates
from kvtier.v1.block_pb2 import Medium, Position
from kvtier.v1.event_service_pb2 import TierState
from kvtier.v1.tier_pb2 import Node, Tier, TierCounters


def sample(seconds: float, *, life: int = 1, sequence: int | None = 0, **counters: int) -> Sample:
    head = None if sequence is None else Position(epoch=1, sequence=sequence)
    node = Node(node_id="n1", incarnation=life, head=head, followers=2, leases=1)
    tier = Tier(
        name="cpu0",
        medium=Medium.MEDIUM_CPU,
        state=TierState.TIER_STATE_READY,
        capacity_blocks=8,
        ready_blocks=3,
        counters=TierCounters(**counters),
    )
    return Sample(seconds, to_record(node), [to_record(tier)])


def rates(record: dict[str, Any]) -> dict[str, float | None]:
    tier = record["tiers"][0]
    told = {name: tier[f"{name}_per_s"] for name in ("stored", "loaded", "removed", "evicted")}
    return {"batches": record["batches_per_s"], **told}


def test_a_rate_is_what_a_counter_rose_by_in_a_second() -> None:
    """By the time that passed between two samples."""
    before = sample(10, sequence=5, stored=100, loaded=7, removed=1)
    now = sample(12.5, sequence=10, stored=150, loaded=7, removed=2)

    assert rates(with_rates(before, now)) == {
        "batches": 2,
        "stored": 20,
        "loaded": 0,
        "removed": 0.4,
        "evicted": 0,
    }


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (None, sample(1, stored=5)),
        (sample(1, stored=5), sample(2, life=2, stored=9)),
        (sample(1, stored=5), sample(1, stored=9)),
    ],
    ids=["the first", "a new start", "no time"],
)
def test_without_a_past_there_is_no_rate(before: Sample | None, now: Sample) -> None:
    """Neither a wrong one nor 0."""
    assert set(rates(with_rates(before, now)).values()) == {None}


def test_behind_a_proxy_one_tier_may_begin_anew() -> None:
    """A counter that fell has no rate; a proxy itself has no log."""
    before = sample(1, sequence=None, stored=50, loaded=1)
    now = sample(2, sequence=None, stored=3, loaded=2)

    told = rates(with_rates(before, now))

    assert (told["stored"], told["loaded"], told["batches"]) == (None, 1, None)


def test_a_tier_that_a_proxy_does_not_reach_has_a_row_without_numbers() -> None:
    """Neither rates, nor what it holds; before and after it is out of reach."""
    before, now = sample(1, stored=3), sample(2, stored=5)
    now.tiers[0] |= {"counters": None, "state": "TIER_STATE_UNSPECIFIED", "capacity_blocks": 0}

    gone = with_rates(before, now)
    back = with_rates(now, before._replace(seconds=3))

    assert set(rates(gone).values()) - {0} == {None}
    assert set(rates(back).values()) - {0} == {None}
    nodes = [{"endpoint": "a:1", "state": "serving", **gone}]
    assert frame(Settings(), nodes, colour=False)[-1].split() == ["n1", "cpu0", "unreachable"]
    assert frame(Settings(), nodes, colour=True)[-1].count("\x1b[31m") == 1


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (None, ""),
        (0, "[..........]   0%"),
        (0.43, "[####......]  43%"),
        (1, "[##########] 100%"),
        (1.2, "[##########] 120%"),
    ],
)
def test_a_bar_tells_how_full_a_tier_is(use: float | None, text: str) -> None:
    """Ten places, and the number beside them."""
    assert bar(use) == text


def test_a_picture_has_nodes_above_tiers() -> None:
    """A node that does not answer has an empty row, and no tiers."""
    before, now = sample(1, stored=3), sample(2, sequence=1, stored=15)
    gone = {"node_id": "", "start_time": None, "head": None, "followers": None, "leases": None}
    nodes = [
        {"endpoint": "a:1", "state": "serving", **with_rates(before, now)},
        {"endpoint": "b:1", "state": "unreachable", "batches_per_s": None, "tiers": [], **gone},
    ]

    lines = frame(Settings(), nodes, colour=False)

    assert lines == [
        "NODE  ENDPOINT  STATE        UP  FOLLOWERS  LEASES  HEAD  BATCHES/S",
        "n1    a:1       serving                  2       1     1          1",
        "      b:1       unreachable",
        "",
        "NODE  TIER  STATE  USE                BLOCKS  LEASED  STORE/S  LOAD/S  REMOVE/S  EVICT/S",
        "n1    cpu0  ready  [####......]  38%       3       0       12       0         0        0",
    ]


def test_titles_and_columns_are_for_the_user_to_choose() -> None:
    """Fewer lines with --no-headers, more columns with -o wide."""
    nodes = [{"endpoint": "a:1", "state": "serving", **with_rates(None, sample(1))}]

    plain = frame(Settings(headers=False), nodes, colour=False)
    wide = frame(Settings(output="wide"), nodes, colour=False)

    assert len(plain) == 3
    assert "PROMOTE/S" in wide[-2]
