"""What commands show of tiers that last: the state and why, room in bytes, what is not known."""

from typing import Any

import pytest

from kvtier.cli.commands import get_nodes, get_tiers, lookup
from kvtier.cli.event_table import COLUMNS
from kvtier.cli.events import EventReader
from kvtier.cli.output import Column, Record
from kvtier.cli.output.messages import to_record
from kvtier.cli.tiers import state_text
from kvtier.v1.block_pb2 import Locality, Medium
from kvtier.v1.event_service_pb2 import State, TierState, WatchEventsResponse
from kvtier.v1.tier_pb2 import Tier, TierCounters

READY, SILENT = TierState.TIER_STATE_READY, TierState.TIER_STATE_SILENT
READ_ONLY, RECOVERING = TierState.TIER_STATE_READ_ONLY, TierState.TIER_STATE_RECOVERING


def tier(**fields: Any) -> Record:
    fields = {
        "name": "fs0",
        "medium": Medium.MEDIUM_FS,
        "state": READY,
        "counters": TierCounters(),
        **fields,
    }
    return {"node_id": "node-a", **to_record(Tier(**fields))}


def shown(columns: tuple[Column, ...], record: Record) -> dict[str, str]:
    return {column.title: column.value(record) for column in columns}


@pytest.mark.parametrize(
    ("state", "reason", "told"),
    [
        (READY, "", "ready"),
        (RECOVERING, "62 %", "recovering 62 %"),
        (RECOVERING, "counting blocks", "recovering: counting blocks"),
        (READ_ONLY, "no space left on device", "read-only: no space left on device"),
        (SILENT, "", "silent"),
    ],
)
def test_a_state_is_told_with_its_reason(
    state: TierState.ValueType, reason: str, told: str
) -> None:
    """By `get tiers` and by a watch in the same words."""
    message = WatchEventsResponse(
        node_id="node-a", state=State(tier="fs0", tier_state=state, reason=reason)
    )

    ((event,),) = EventReader().read(message)

    assert state_text(TierState.Name(state), reason) == told
    assert shown(get_tiers._COLUMNS, tier(state=state, state_reason=reason))["STATE"] == told
    assert shown(COLUMNS, event)["ABOUT"] == told


@pytest.mark.parametrize("medium", [Medium.MEDIUM_FS, Medium.MEDIUM_OBJ])
def test_a_tier_of_files_or_objects_has_its_use_in_bytes(medium: Medium.ValueType) -> None:
    """Three small blocks may take half of a tier for which it is said that two fit."""
    record = tier(
        medium=medium,
        capacity_bytes=1 << 20,
        used_bytes=1 << 19,
        ready_blocks=3,
        capacity_blocks=2,
    )

    row = shown(get_tiers._COLUMNS, record)

    assert (row["SIZE"], row["USED"], row["USE"]) == ("1 MiB", "512 KiB", "50%")
    assert (row["BLOCKS"], row["OF"]) == ("3", "")
    assert get_nodes._tiers({"tiers": [record]}) == "fs0 3"


def test_a_tier_in_memory_has_its_use_in_blocks() -> None:
    """Its slots are of one size, so that a number of blocks is its room."""
    record = tier(
        name="cpu0",
        medium=Medium.MEDIUM_CPU,
        capacity_bytes=1 << 20,
        used_bytes=1 << 19,
        ready_blocks=1,
        capacity_blocks=4,
    )

    row = shown(get_tiers._COLUMNS, record)

    assert (row["BLOCKS"], row["OF"], row["USE"]) == ("1", "4", "25%")
    assert get_nodes._tiers({"tiers": [record]}) == "cpu0 1/4"


def test_a_tier_without_room_has_no_use() -> None:
    """A capacity of 0 is no reason to divide by it."""
    assert shown(get_tiers._COLUMNS, tier())["USE"] == ""


def test_a_wide_table_tells_what_went_wrong_with_blocks_that_last() -> None:
    """And where the bytes are; a narrow one does not."""
    counters = TierCounters(corrupt=1, lost=2, trimmed=3, scrubbed=4)
    record = tier(locality=Locality.LOCALITY_REMOTE, quarantined_blocks=5, counters=counters)
    titles = ("LOCALITY", "CORRUPT", "LOST", "TRIMMED", "SCRUBBED", "QUARANTINED", "USED")

    row = shown(get_tiers._COLUMNS, record)

    assert [row[title] for title in titles] == ["remote", "1", "2", "3", "4", "5", "0 B"]
    assert {c.title for c in get_tiers._COLUMNS if c.wide} >= set(titles)


@pytest.mark.parametrize(
    ("result", "recovering", "told"),
    [
        ("HIT", ["fs0"], "hit"),
        ("MISS", [], "miss"),
        ("RETRY", [], "retry"),
        ("RETRY", ["fs0"], "retry: tier fs0 is still recovering"),
        ("RETRY", ["fs0", "obj0"], "retry: tiers fs0, obj0 are still recovering"),
    ],
)
def test_a_lookup_says_why_a_block_is_to_be_asked_for_again(
    result: str, recovering: list[str], told: str
) -> None:
    """A hit is a hit, whatever else may turn up."""
    record = {"result": f"LOOKUP_RESULT_{result}", "recovering": recovering}

    assert lookup._result(record) == told


def test_a_lookup_marks_the_lengths_that_may_grow() -> None:
    """The others are as long as they are."""
    record = {"prefix_lengths": {"cpu0": 2, "fs0": 1}, "recovering": ["fs0"]}

    assert lookup._by_tier(record) == "cpu0 2, fs0 1 (recovering)"


def test_a_tier_whose_node_a_proxy_does_not_reach_keeps_its_row() -> None:
    """What the proxy heard of it is told, and no number is made up."""
    unspecified = TierState.TIER_STATE_UNSPECIFIED
    record = tier(state=unspecified, state_reason="b:1 cannot be reached", counters=None)

    row = shown(get_tiers._COLUMNS, record)

    known = {title: cell for title, cell in row.items() if cell}
    assert known.pop("STATE") == "unreachable"
    assert known.keys() == {"NODE", "TIER", "MEDIUM", "LOCALITY"}
