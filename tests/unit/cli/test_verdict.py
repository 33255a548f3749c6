"""Commands that check something fail when it does not hold."""

from pathlib import Path
from typing import Any

import pytest

from kvtier.cli.commands import demo as demo_command
from kvtier.cli.commands import replay as replay_command
from kvtier.cli.demo import screen
from kvtier.cli.demo.plan import CPU, GPU, REMOTE, make_plan
from kvtier.cli.demo.show import Outcome
from kvtier.cli.exit import ExitCode
from kvtier.cli.main import main
from kvtier.cli.replay import Report, replay_namespace
from kvtier.cli.workload import Workload
from kvtier.v1.block_pb2 import Medium
from kvtier.v1.tier_pb2 import Tier

GOOD, BAD = screen.Check("good", True, "this holds"), screen.Check("bad", False, "this does not")


@pytest.mark.parametrize(("checks", "code"), [([GOOD], 0), ([GOOD, BAD], 6)])
def test_a_demo_ends_with_0_only_when_everything_holds(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    checks: list[screen.Check],
    code: int,
) -> None:
    """One check that fails makes the exit code 6, and is named."""

    async def show(*_: Any) -> Outcome:
        return Outcome([], checks, 1.0)

    monkeypatch.setattr(demo_command, "show", show)

    assert main(["demo", "--requests", "1"]) == code
    assert ("bad" in capsys.readouterr().err) == (code != 0)


@pytest.mark.parametrize(("equal", "code"), [(True, ExitCode.OK), (False, ExitCode.DIFFERENCE)])
def test_a_replay_ends_with_6_when_the_view_differs(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    equal: bool,
    code: int,
) -> None:
    """The report is printed all the same, so that the difference can be looked at."""
    report = Report(
        requests=1,
        blocks=2,
        prefix_hits=0,
        stored=2,
        removed=0,
        resident_end=2,
        view_equals_listing=equal,
        requests_per_s=1.0,
        elapsed_s=1.0,
    )

    async def replay(*_: Any) -> Report:
        return report

    monkeypatch.setattr(replay_command, "_replay", replay)
    trace = tmp_path / "trace.jsonl"
    trace.write_text("")

    assert main(["replay", str(trace)]) == code
    out, err = capsys.readouterr()
    assert f"view_equals_listing  {str(equal).lower()}" in out
    assert bool(err) == (not equal)


def test_a_plan_has_tiers_that_are_too_small_for_its_requests() -> None:
    """Every tier holds the longest chain, and none of them all blocks."""
    requests = list(Workload(seed=2).requests(200))

    plan = make_plan(requests, replay_namespace(64))

    distinct = len({block for request in requests for block in request.hash_ids})
    longest = max(len(request.hash_ids) for request in requests)
    capacities = [plan.capacities[key] for key in (GPU, CPU, REMOTE)]
    assert capacities == sorted(capacities)
    assert all(longest <= capacity < distinct for capacity in capacities)
    assert [tier["name"] for tier in plan.node("primary")["tiers"]] == ["gpu0", "cpu0"]
    assert [tier["name"] for tier in plan.node("secondary")["tiers"]] == ["cpu0"]


def test_the_opening_says_when_the_gpu_is_emulated() -> None:
    """A tier that is not in GPU memory is not passed off as one that is."""
    plan = make_plan(list(Workload(seed=2).requests(5)), replay_namespace(64))
    tiers = [
        Tier(name="gpu0", medium=Medium.MEDIUM_GPU, device="emulated", capacity_blocks=9),
        Tier(name="gpu1", medium=Medium.MEDIUM_GPU, device="cuda:0", capacity_blocks=9),
    ]

    lines = screen.opening(plan, [("primary", "127.0.0.1:1", tiers)], "generated chats")

    rows = {line.split()[2]: line for line in lines if "127.0.0.1:1" in line}
    assert rows["gpu0"].endswith("emulated (no GPU here)")
    assert rows["gpu1"].endswith("cuda:0")


def test_the_verdict_marks_what_fails() -> None:
    """Each check is a line of its own."""
    lines = screen.verdict([GOOD, BAD], 2.0)

    assert "  ok    this holds" in lines
    assert "  FAIL  this does not" in lines
