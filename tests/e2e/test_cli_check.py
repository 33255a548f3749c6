"""Comparing events with listings at the terminal."""

import json
import re
from typing import Any

import pytest

MIB = 1 << 20
QUIET = {
    "node_id": "node-s",
    "drain_timeout": 0,
    "tiers": [
        {"name": "cpu0", "medium": "cpu", "capacity": MIB},
        {"name": "mute", "medium": "cpu", "capacity": MIB, "events": False},
    ],
}


def _put(cli: Any, endpoint: str, data: bytes, name: str = "k", tier: str = "cpu0") -> None:
    result = cli(
        "put", "-", "-n", name, "--block-bytes", 4, "--tier", tier, "-e", endpoint, stdin=data
    )
    assert result.code == 0, result.err


@pytest.fixture(name="silent", scope="module")
def _silent(start_node: Any) -> Any:
    return start_node(QUIET)


def test_equal_tiers_are_told_one_by_one(cli: Any, node: Any) -> None:
    """Each tier has its row, with counts, the position and how often the node was asked."""
    _put(cli, node.endpoint, b"aaaabbbb")
    _put(cli, node.endpoint, b"aaaa", tier="gpu0")

    result = cli("check", "-e", node.endpoint)

    lines = result.text.splitlines()
    assert (result.code, result.err) == (0, "")
    assert lines[0].split()[:5] == ["NODE", "TIER", "VERDICT", "EVENTS", "LISTING"]
    assert [line.split()[:9] for line in lines[1:]] == [
        ["node-a", "gpu0", "equal", "1", "1", "0", "0", "0", "1"],
        ["node-a", "cpu0", "equal", "2", "2", "0", "0", "0", "1"],
    ]
    assert re.fullmatch(r"[0-9a-f]{16}:[0-9]+", lines[1].split()[-1])


def test_a_check_sees_only_what_it_was_asked_for(cli: Any, node: Any) -> None:
    """Filters by tier and by namespace hold for events and listing alike."""
    _put(cli, node.endpoint, b"aaaabbbb", name="k")
    _put(cli, node.endpoint, b"cccc", name="other")

    result = cli("check", "--tier", "cpu0", "-n", "other", "-o", "json", "-e", node.endpoint)

    (row,) = json.loads(result.text)
    assert result.code == 0
    assert (row["tier"], row["events"], row["listing"]) == ("cpu0", 1, 1)


def test_a_silent_tier_is_named_and_cannot_be_told(cli: Any, silent: Any) -> None:
    """Its blocks are not counted, the exit code is 1, and the error says how to go on."""
    _put(cli, silent.endpoint, b"aaaa", tier="mute")

    every = cli("check", "-o", "jsonl", "-e", silent.endpoint)
    others = cli("check", "--tier", "cpu0", "-e", silent.endpoint)

    rows = [json.loads(line) for line in every.text.splitlines()]
    assert [(r["tier"], r["verdict"], r["events"]) for r in rows] == [
        ("cpu0", "equal", 0),
        ("mute", "silent", None),
    ]
    assert every.code == 1
    assert every.err.startswith(f"error: {silent.endpoint}: could not tell of tier mute")
    assert every.err.endswith("check only --tier cpu0\n")
    assert others.code == 0


def test_several_nodes_are_checked_at_once(cli: Any, node: Any, silent: Any) -> None:
    """Each has its rows, and one that cannot be told does not hold back the others' answers."""
    endpoints = ("-e", node.endpoint, "-e", silent.endpoint)

    result = cli("check", "-o", "jsonl", *endpoints)

    rows = [json.loads(line) for line in result.text.splitlines()]
    assert result.code == 1
    assert {(r["node_id"], r["tier"]) for r in rows} == {
        ("node-a", "gpu0"),
        ("node-a", "cpu0"),
        ("node-s", "cpu0"),
        ("node-s", "mute"),
    }


def test_a_check_that_goes_on_tells_each_time(cli: Any, node: Any) -> None:
    """With --for there are rows for every look, all of one table."""
    result = cli("check", "--for", 3, "--tier", "cpu0", "-e", node.endpoint)

    lines = result.text.splitlines()
    assert result.code == 0, result.err
    assert len(lines) >= 3
    assert [line.split()[0] for line in lines] == ["NODE"] + (len(lines) - 1) * ["node-a"]
