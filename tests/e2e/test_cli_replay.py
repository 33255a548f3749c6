"""Replays: exact counts from real events."""

import json
import os
import signal
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

from kvtier.cli.trace import Request, format_request
from kvtier.cli.workload import Workload


class PlainLru:
    """The rule of `lru` in plain words: groups by request, the tail of the oldest goes first."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.groups: OrderedDict[int, dict[int, None]] = OrderedDict()
        self.group_of: dict[int, int] = {}
        self.hits = self.stored = self.removed = 0

    def serve(self, number: int, request: Request) -> None:
        chain = request.hash_ids
        self.hits += next((i for i, b in enumerate(chain) if b not in self.group_of), len(chain))
        absent = [block for block in chain if block not in self.group_of]
        for block in chain:
            if block in self.group_of:
                del self.groups[self.group_of.pop(block)][block]
        while len(self.group_of) + len(chain) > self.capacity:
            self._evict()
        self.groups[number] = dict.fromkeys(chain)
        self.group_of |= dict.fromkeys(chain, number)
        self.stored += len(absent)

    def _evict(self) -> None:
        number, members = next(iter(self.groups.items()))
        if members:
            del self.group_of[members.popitem()[0]]
            self.removed += 1
        else:
            del self.groups[number]


@pytest.fixture(name="requests", scope="module")
def _requests() -> list[Request]:
    return list(Workload(seed=11).requests(250))


@pytest.fixture(name="trace")
def _trace(tmp_path: Path, requests: list[Request]) -> Path:
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(f"{format_request(request)}\n" for request in requests))
    return path


@pytest.mark.parametrize("capacity", [130, 600, 100_000])
def test_a_replay_counts_what_the_rule_gives(
    cli: Any, trace: Path, requests: list[Request], capacity: int
) -> None:
    """Hits, stores and removals of a generated trace are those of a plain model of `lru`."""
    model = PlainLru(capacity)
    for number, request in enumerate(requests):
        model.serve(number, request)

    result = cli("replay", trace, "--capacity", capacity, "--policy", "lru", "-o", "json")

    assert result.code == 0, result.err
    report = json.loads(result.text)
    assert report["requests"] == len(requests)
    assert report["blocks"] == sum(len(request.hash_ids) for request in requests)
    assert report["prefix_hits"] == model.hits
    assert report["stored"] == model.stored
    assert report["removed"] == model.removed
    assert report["resident_end"] == len(model.group_of)
    assert report["view_equals_listing"] is True
    assert report["requests_per_s"] > 0


def test_larger_blocks_and_fewer_requests_count_alike(
    cli: Any, trace: Path, requests: list[Request]
) -> None:
    """The payload changes no count, and --limit ends the trace early."""
    model = PlainLru(130)
    for number, request in enumerate(requests[:40]):
        model.serve(number, request)

    result = cli(
        "replay", trace, "--capacity", 130, "--limit", 40, "--block-bytes", "32KiB", "-o", "json"
    )

    report = json.loads(result.text)
    assert (report["requests"], report["prefix_hits"], report["stored"]) == (
        40,
        model.hits,
        model.stored,
    )


def test_a_replay_can_use_a_node_that_runs(cli: Any, node: Any, trace: Path) -> None:
    """With --endpoint the named node is filled, in the tier that is wished."""
    result = cli(
        "replay", trace, "--limit", 20, "--tier", "cpu0", "-e", node.endpoint, "-o", "json"
    )
    listing = cli("get", "tiers", "-e", node.endpoint, "-o", "json")

    report = json.loads(result.text)
    gpu, cpu = json.loads(listing.text)
    assert result.code == 0, result.err
    assert cpu["counters"]["stored"] == report["stored"] > 0
    assert gpu["counters"]["stored"] == 0


def test_a_node_with_another_capacity_is_not_filled(cli: Any, node: Any, trace: Path) -> None:
    """A capacity or policy that the named node does not have is wrong use."""
    result = cli("replay", trace, "--capacity", 7, "--tier", "cpu0", "-e", node.endpoint)
    listing = cli("get", "blocks", "-e", node.endpoint, "-o", "json")

    assert result.code == 2
    assert "not 7" in result.err
    assert json.loads(listing.text) == []


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "--capacity is needed"),
        (["--capacity", 10, "--tier", "cpu0"], "--tier goes with --endpoint"),
    ],
)
def test_a_replay_without_what_it_needs_is_wrong_use(
    cli: Any, trace: Path, arguments: list[object], why: str
) -> None:
    """A node of the replay's own needs a capacity and has one tier."""
    result = cli("replay", trace, *arguments)

    assert result.code == 2
    assert why in result.err


def test_a_replay_under_the_other_policy_adds_up(cli: Any, trace: Path) -> None:
    """Under `arc` the events tell what the node lists, and another number of hits than `lru`."""
    reports = []
    for policy in ("arc", "lru"):
        result = cli("replay", trace, "--capacity", 200, "--policy", policy, "-o", "json")
        assert result.code == 0, result.err
        reports.append(json.loads(result.text))

    arc, lru = reports
    assert arc["view_equals_listing"] is True
    assert arc["stored"] - arc["removed"] == arc["resident_end"] <= 200
    assert arc["prefix_hits"] != lru["prefix_hits"]


def test_a_replay_may_store_only_what_is_asked_for_again(
    cli: Any, start_node: Any, trace: Path
) -> None:
    """Blocks that a tier's store_threshold defers are no failure, and fewer are stored."""
    tier = {"name": "cpu0", "medium": "cpu", "capacity": 1 << 20, "slot_bytes": 64}
    tiers = [{**tier, "store_threshold": 2}]
    node = start_node({"node_id": "node-again", "drain_timeout": 0, "tiers": tiers})

    result = cli("replay", trace, "--tier", "cpu0", "-e", node.endpoint, "-o", "json")

    assert result.code == 0, result.err
    report = json.loads(result.text)
    assert 0 < report["stored"] < report["blocks"]


def test_a_policy_that_does_not_exist_is_told_by_the_node(cli: Any, trace: Path) -> None:
    """The node's own words say why it does not start."""
    result = cli("replay", trace, "--capacity", 10, "--policy", "nonsense")

    assert result.code == 1
    assert result.err.count("\n") == 1
    assert "nonsense" in result.err


def test_a_bad_line_is_named_and_nothing_keeps_running(
    cli: Any, tmp_path: Path, requests: list[Request]
) -> None:
    """A trace that breaks off ends with the line's number."""
    path = tmp_path / "bad.jsonl"
    path.write_text(f"{format_request(requests[0])}\n{{\n")

    result = cli("replay", path, "--capacity", 200, "-o", "json")

    assert result.code == 2
    assert "bad.jsonl, line 2" in result.err
    assert result.text == ""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_replay_takes_its_node_with_it(
    start_cli: Any, server_of: Any, trace: Path, number: signal.Signals, code: int
) -> None:
    """Ctrl-C and SIGTERM leave no server behind."""
    process = start_cli("replay", trace, "--capacity", 200, "--block-bytes", "1MiB")
    server = server_of(process.pid)
    folder = _configuration(server).parent

    process.send_signal(number)
    _, err = process.communicate()

    assert process.returncode == code
    assert err == b""
    assert not Path(f"/proc/{server}").exists()
    assert not folder.exists()


def _configuration(server: int) -> Path:
    arguments = Path(f"/proc/{server}/cmdline").read_text().split("\0")
    return Path(arguments[arguments.index("--config") + 1])


TRACES = Path(os.environ.get("KVTIER_TRACES") or Path(__file__).parents[3] / "shared" / "traces")
GOLDEN = TRACES / "golden.json"


def _golden(kind: str) -> list[dict[str, Any]]:
    if not GOLDEN.exists():
        return []
    cases: list[dict[str, Any]] = json.loads(GOLDEN.read_text())["conversation"][kind]
    return cases


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(not GOLDEN.exists(), reason=f"no public trace in {TRACES}; see KVTIER_TRACES")
@pytest.mark.parametrize(
    "golden", _golden("lru") or [{}], ids=lambda golden: str(golden.get("cap"))
)
def test_the_public_trace_gives_exactly_the_golden_counts(cli: Any, golden: dict[str, int]) -> None:
    """12,031 requests of a production service give the same counts as the reference."""
    trace = TRACES / "conversation_trace.jsonl"

    result = cli("replay", trace, "--capacity", golden["cap"], "--policy", "lru", "-o", "json")

    assert result.code == 0, result.err
    report = json.loads(result.text)
    names = ("prefix_hits", "stored", "removed", "resident_end")
    assert {name: report[name] for name in names} == {name: golden[name] for name in names}
    assert report["view_equals_listing"] is True


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(not GOLDEN.exists(), reason=f"no public trace in {TRACES}; see KVTIER_TRACES")
@pytest.mark.parametrize("golden", _golden("two") or [{}], ids=lambda golden: golden.get("mode"))
def test_the_public_trace_gives_exactly_the_golden_counts_of_two_tiers(
    cli: Any, golden: dict[str, Any]
) -> None:
    """Hits, stores and removals of both tiers are the reference's, in either mode."""
    trace, mode = TRACES / "conversation_trace.jsonl", golden["mode"].partition("(")[0]
    sizes = ("--gpu-capacity", golden["G"], "--cpu-capacity", golden["C"], "--mode", mode)

    result = cli("replay", trace, *sizes, "-o", "json")

    assert result.code == 0, result.err
    report = json.loads(result.text)
    names = [name for name in golden if name.startswith(("gpu_", "cpu_"))]
    assert len(names) == 6
    assert {name: report[name] for name in names} == {name: golden[name] for name in names}
    assert report["view_equals_listing"] is True


@pytest.mark.parametrize("mode", ["inclusive", "exclusive"])
def test_two_tiers_find_what_one_of_both_sizes_finds(
    cli: Any, trace: Path, requests: list[Request], mode: str
) -> None:
    """The union of two tiers is the set that one tier would hold that is as large as both."""
    gpu, cpu = 300, 900
    whole, upper = PlainLru(gpu + cpu if mode == "exclusive" else cpu), PlainLru(gpu)
    for number, request in enumerate(requests):
        whole.serve(number, request)
        upper.serve(number, request)

    sizes = ("--gpu-capacity", gpu, "--cpu-capacity", cpu, "--mode", mode)
    result = cli("replay", trace, *sizes, "-o", "json")

    assert result.code == 0, result.err
    report = json.loads(result.text)
    assert report["gpu_hits"] == upper.hits
    assert report["gpu_hits"] + report["cpu_hits"] == whole.hits
    assert report["gpu_stored"] == upper.stored
    assert report["gpu_removed"] == upper.removed
    assert report["view_equals_listing"] is True


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--gpu-capacity", 10), "go together"),
        (("--gpu-capacity", 10, "--cpu-capacity", 10, "--mode", "sideways"), "sideways"),
        (("--gpu-capacity", 1, "--cpu-capacity", 1, "--mode", "exclusive", "--capacity", 1), "one"),
    ],
)
def test_options_for_two_tiers_go_together(
    cli: Any, trace: Path, options: tuple[object, ...], says: str
) -> None:
    """A replay that cannot be what was meant is refused before anything starts."""
    result = cli("replay", trace, *options)

    assert result.code == 2
    assert says in result.err


@pytest.mark.parametrize(
    "sizes",
    [
        ("--capacity", 9),
        ("--gpu-capacity", 9, "--cpu-capacity", 9, "--mode", "exclusive"),
    ],
)
def test_a_trace_that_contradicts_itself_is_told_so(
    cli: Any, tmp_path: Path, sizes: tuple[object, ...]
) -> None:
    """An id that follows two different ones is named, with its request."""
    trace = tmp_path / "trace.jsonl"
    lines = [
        Request(timestamp=0, input_length=1024, output_length=1, hash_ids=ids)
        for ids in ((1, 2), (3, 2))
    ]
    trace.write_text("".join(f"{format_request(line)}\n" for line in lines))

    result = cli("replay", trace, *sizes)

    assert result.code == 1
    assert "request 1 was not stored in full: entry 1 of its hash_ids" in result.err
