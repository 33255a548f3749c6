"""The demo, from end to end."""

import json
from pathlib import Path
from typing import Any

import pytest

from kvtier.cli.trace import format_request
from kvtier.cli.workload import Workload


@pytest.mark.slow
def test_the_demo_shows_that_everything_holds(cli: Any) -> None:
    """It ends with 0 and tells who took part, what happened, and what was checked."""
    result = cli("demo", "--requests", 150)

    assert result.code == 0, result.text
    assert "emulated (no GPU here)" in result.text
    assert "FAIL" not in result.text
    assert result.text.count("  ok    ") == 5
    for words in ("A stretch of the merged events", "removed", "evicted", "SECONDARY CPU0"):
        assert words in result.text


@pytest.mark.slow
def test_the_demo_replays_a_trace(cli: Any, tmp_path: Path) -> None:
    """With --trace the requests are the file's; JSON tells the sums by tier, and they agree."""
    trace = tmp_path / "trace.jsonl"
    requests = list(Workload(seed=5).requests(80))
    trace.write_text("".join(f"{format_request(request)}\n" for request in requests))

    result = cli("demo", "--trace", trace, "-o", "json")

    report = json.loads(result.text)
    assert result.code == 0, result.err
    assert report["requests"] == 80
    assert report["blocks"] == sum(len(request.hash_ids) for request in requests)
    assert set(report["checks"].values()) == {True}
    for tier in report["tiers"]:
        assert tier["removed"] > 0
        assert tier["stored"] - tier["removed"] == tier["resident"] <= tier["capacity_blocks"]
    assert sum(tier["hits"] for tier in report["tiers"]) > 0
