"""A small load on a real node."""

import json
import signal
import time
from typing import Any

import pytest

from kvtier.cli.nodes import RunningNode

SMALL = ("--callers", 2, "--chains", 2, "--blocks", 4)


@pytest.fixture(name="left")
def _left(cli: Any, node: RunningNode) -> Any:
    """Tells which namespaces of loads the node has, and how many blocks."""

    def left() -> tuple[list[str], int]:
        listed = json.loads(cli("get", "namespaces", "-e", node.endpoint, "-o", "json").out)
        tiers = json.loads(cli("get", "tiers", "-e", node.endpoint, "-o", "json").out)
        names = [r["name"] for r in listed if r["name"].startswith("kvtier-bench-")]
        return names, sum(tier["ready_blocks"] + tier["pending_blocks"] for tier in tiers)

    return left


@pytest.mark.parametrize("tier", ["gpu0", "cpu0"])
def test_rates_and_times_of_each_operation_are_told_and_nothing_is_left(
    cli: Any, node: RunningNode, left: Any, tier: str
) -> None:
    """Every lookup, store, load and removal did what it should, and none was refused."""
    result = cli("bench", *SMALL, "--for", 0.5, "--tier", tier, "-e", node.endpoint, "-o", "json")

    assert result.code == 0, result.err
    records = json.loads(result.out)
    assert [record["operation"] for record in records] == ["lookup", "store", "load", "delete"]
    for record in records:
        assert record["calls"] > 0
        assert record["calls_per_s"] == pytest.approx(
            record["calls"] / record["elapsed_s"], rel=0.01
        )
        assert 0 < record["min_ms"] <= record["p50_ms"] <= record["p99_ms"] <= record["max_ms"]
        assert (record["refused"], record["missed_blocks"]) == (0, 0)
    store = records[1]
    assert store["bytes_per_s"] == pytest.approx(store["calls_per_s"] * 4 * 64, rel=0.01)
    assert left() == ([], 0)


def test_a_table_is_for_people(cli: Any, node: RunningNode) -> None:
    """A line for each operation."""
    result = cli("bench", *SMALL, "--for", 0.2, "-e", node.endpoint)

    titles, *rows = result.text.splitlines()
    assert titles.split("  ")[0] == "OPERATION"
    assert [row.split()[0] for row in rows] == ["lookup", "store", "load", "delete"]


def test_others_blocks_are_safe_unless_agreed(cli: Any, node: RunningNode, left: Any) -> None:
    """Where there is too little room it asks, and without a terminal to ask at it ends."""
    huge = ("--callers", 64, "--chains", 64, "--tier", "gpu0")
    result = cli("bench", *huge, "-e", node.endpoint)

    assert (result.code, result.out) == (2, b"")
    assert "tier gpu0 has room for 16384 of 65536 blocks" in result.err
    assert result.err.endswith("agree with --yes\n")
    assert left() == ([], 0)


def test_a_node_without_slots_keeps_the_choice(cli: Any, start_node: Any) -> None:
    """The first namespace would fix them; once agreed, a tier that is too small refuses."""
    tier = {"name": "cpu0", "medium": "cpu", "capacity": "256KiB"}
    node = start_node({"tiers": [tier], "drain_timeout": 0})

    asked = cli("bench", "-e", node.endpoint)
    agreed = cli("bench", "--yes", "--for", 0.3, "-e", node.endpoint, "-o", "json")

    assert asked.code == 2
    assert "tier cpu0 has no slots yet, and would have slots of 64 KiB" in asked.err
    assert agreed.code == 0
    store = json.loads(agreed.out)[1]
    assert (store["calls"], store["p99_ms"]) == (0, None)
    assert store["refused"] > 0


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "SIGTERM"]
)
def test_an_interrupted_load_leaves_nothing(
    start_cli: Any, node: RunningNode, left: Any, number: int, code: int
) -> None:
    """Its namespace and blocks go before it does."""
    process = start_cli("bench", *SMALL, "--for", 600, "-e", node.endpoint)
    end = time.monotonic() + 60
    while left()[1] == 0:
        assert time.monotonic() < end

    process.send_signal(number)
    out, err = process.communicate(timeout=30)

    assert (process.returncode, out, err) == (code, b"", b"")
    assert left() == ([], 0)


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        ("--tier cpu9", (3, "tier 'cpu9' is unknown; there are gpu0, cpu0")),
        ("--block-bytes 0", (2, "'0' is no size of a block")),
        ("--block-bytes 512m", (2, "'512m' is not a size")),
        ("--block-bytes -1", (2, "'-1' is negative")),
        ("--block-bytes 65B --for 1", (1, "(BLOCK_TOO_LARGE)")),
        ("--block-bytes 1GiB", (2, "of payloads in memory")),
        ("--for 0", (2, "0")),
        ("--callers 0", (2, "0")),
    ],
)
def test_what_cannot_be_measured_is_refused(
    cli: Any, node: RunningNode, left: Any, arguments: str, refusal: tuple[int, str]
) -> None:
    """By name and value, in one line, and nothing is left."""
    result = cli("bench", *arguments.split(), "-e", node.endpoint)

    code, told = refusal
    assert (result.code, result.out) == (code, b"")
    assert told in result.err
    assert result.err.count("\n") == 1
    assert left() == ([], 0)
