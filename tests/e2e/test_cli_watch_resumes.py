"""Going on with a watch where an earlier one ended."""

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest

from tests.contract.conftest import Serve
from tests.contract.support import TOKENS, namespace, payloads, run

from .conftest import ENVIRONMENT

BLOCK_EVENTS = ("stored", "removed", "cleared")


def _records(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def _told(records: list[dict[str, Any]]) -> list[tuple[int, str, str]]:
    """The live block events, hash by hash."""
    return [
        (record["sequence"], record["event"], block_hash)
        for record in records
        if record["event"] in BLOCK_EVENTS and record["sequence"] is not None
        for block_hash in record["block_hashes"]
    ]


def _put(cli: Any, endpoint: str, data: bytes, name: str = "w", tier: str = "cpu0") -> list[str]:
    result = cli(
        "put", "-", "-n", name, "--block-bytes", 4, "--tier", tier, "-e", endpoint, "-o", "jsonl",
        stdin=data,
    )  # fmt: skip
    assert result.code == 0, result.err
    return [record["block_hash"] for record in _records(result.text)]


def _head(cli: Any, endpoint: str) -> str:
    """Where the node's log is now."""
    (node,) = json.loads(cli("get", "nodes", "-o", "json", "-e", endpoint).text)
    return f"{node['head']['epoch']}:{node['head']['sequence']}"


@pytest.fixture(name="tiny", scope="module")
def _tiny(start_node: Any) -> str:
    """The address of a node that holds two blocks."""
    tier = {"name": "cpu0", "medium": "cpu", "capacity": 8, "slot_bytes": 4}
    node = start_node({"node_id": "tiny", "drain_timeout": 0, "tiers": [tier]})
    return str(node.endpoint)


def _watch(cli: Any, endpoint: str, since: str, limit: int) -> list[dict[str, Any]]:
    result = cli("watch", "--since", since, "--limit", limit, "-o", "jsonl", "-e", endpoint)
    assert result.code == 0, result.err
    return _records(result.text)


def test_the_last_line_is_enough_to_go_on(cli: Any, node: Any) -> None:
    """A watch with --limit, and one from its last position: every event once, in order."""
    endpoint = node.endpoint
    start = _head(cli, endpoint)
    hashes = [h for data in (b"aaaa", b"bbbb", b"cccc") for h in _put(cli, endpoint, data)]
    first = _watch(cli, endpoint, start, 2)
    hashes += _put(cli, endpoint, b"dddd")

    rest = _watch(cli, endpoint, first[-1]["position"], 2)

    told = [*_told(first), *_told(rest)]
    assert [block_hash for _, _, block_hash in told] == hashes
    assert len({sequence for sequence, _, _ in told}) == 4
    assert "reset" not in {record["event"] for record in rest}


def _evict_two_namespaces(cli: Any, endpoint: str) -> tuple[str, list[dict[str, Any]]]:
    """Make a batch of two removals; return a position before it, and all records from there."""
    _put(cli, endpoint, b"aaaa", name="a")
    start = _head(cli, endpoint)
    _put(cli, endpoint, b"bbbb", name="b")
    _put(cli, endpoint, b"ccccdddd", name="c")
    head = int(_head(cli, endpoint).rpartition(":")[2])
    for seconds in (0.5, 5, 20):
        result = cli("watch", "--since", start, "--for", seconds, "-o", "jsonl", "-e", endpoint)
        records = _records(result.text)
        if head in {record.get("sequence") for record in records}:
            return start, records
    raise AssertionError(records)


def test_every_position_that_is_printed_can_be_resumed(cli: Any, tiny: str) -> None:
    """From any line on the rest comes without a gap; only the batch around the line comes again."""
    _, whole = _evict_two_namespaces(cli, tiny)
    events = [record for record in whole if record["event"] in BLOCK_EVENTS]
    assert len({record["sequence"] for record in events}) < len(events)

    for place, record in enumerate(whole):
        sequence = int(record["position"].rpartition(":")[2])
        missing = [e for e in whole[place + 1 :] if e in events]
        expected = [event for event in events if event["sequence"] > sequence]

        rest = _watch(cli, tiny, record["position"], len(expected)) if expected else []

        assert [event for event in rest if event["event"] in BLOCK_EVENTS] == expected
        assert expected[len(expected) - len(missing) :] == missing
        repeated = {event["sequence"] for event in expected if event not in missing}
        assert repeated <= {record.get("sequence")}


def test_a_batch_is_not_cut_by_the_limit(cli: Any, tiny: str) -> None:
    """A store that evicts from two namespaces tells of both at once; --limit ends after them."""
    _, whole = _evict_two_namespaces(cli, tiny)
    counts = Counter(r["sequence"] for r in whole if r["event"] in BLOCK_EVENTS)
    sequence = next(sequence for sequence, count in counts.items() if count > 1)
    epoch = whole[-1]["epoch"]

    limited = _watch(cli, tiny, f"{epoch}:{sequence - 1}", 1)

    shown = [record for record in limited if record["event"] in BLOCK_EVENTS]
    assert shown == [record for record in whole if record.get("sequence") == sequence]
    assert shown[-1]["position"] == f"{epoch}:{sequence}"


def test_what_cannot_be_resumed_begins_with_a_reset(cli: Any, node: Any) -> None:
    """A position of another life, or one ahead of the log, is told as RESET with its reason."""
    _put(cli, node.endpoint, b"aaaa")
    epoch = _head(cli, node.endpoint).partition(":")[0]
    other = f"{int(epoch, 16) ^ 1 or 2:016x}:1"
    ahead = f"{epoch}:999999"

    for since, reason in ((other, "EPOCH_CHANGED"), (ahead, "AHEAD_OF_HEAD")):
        records = _watch(cli, node.endpoint, since, 1)

        (reset,) = [record for record in records if record["event"] == "reset"]
        assert reset["reason"] == f"RESET_REASON_{reason}"
        assert (records[-1]["event"], records[-1]["sequence"]) == ("stored", None)
        assert {r["position"] for r in records[records.index(reset) :]} == {None}


def test_a_table_tells_the_position_too(cli: Any, node: Any) -> None:
    """The epoch is on the SYNCED line, the sequence under POSITION; RESET says why it came."""
    _put(cli, node.endpoint, b"aaaa")
    start = _head(cli, node.endpoint)
    epoch, _, sequence = start.partition(":")
    _put(cli, node.endpoint, b"bbbb")

    good = cli("watch", "--since", start, "--limit", 1, "-e", node.endpoint)
    bad = cli("watch", "--since", f"{epoch}:999999", "--limit", 1, "-e", node.endpoint)

    (synced,) = [line.split() for line in good.text.splitlines() if "SYNCED" in line]
    (reset,) = [line.split() for line in bad.text.splitlines() if "RESET" in line]
    assert synced == ["node-a", sequence, "SYNCED", "1", "epoch", epoch]
    assert reset[2:] == ["RESET", "ahead", "of", "head"]


def test_a_position_goes_with_one_node(cli: Any, node: Any) -> None:
    """With several endpoints, or a text that is no position, --since is used wrongly."""
    good = "0f1e2d3c4b5a6978:1"

    two = cli("watch", "--since", good, "-e", node.endpoint, "-e", "127.0.0.1:1")
    bad = cli("watch", "--since", "12", "-e", node.endpoint)

    assert (two.code, bad.code) == (2, 2)
    assert "one node" in two.err
    assert "EPOCH:SEQ" in bad.err


def test_a_watch_sees_only_media_that_it_asked_for(cli: Any, node: Any) -> None:
    """--medium passes over what happens in tiers of other media."""
    start = _head(cli, node.endpoint)
    _put(cli, node.endpoint, b"aaaa", tier="cpu0")
    _put(cli, node.endpoint, b"aaaa", tier="gpu0")

    result = cli(
        "watch", "--since", start, "--medium", "gpu", "--limit", 1, "-o", "jsonl",
        "-e", node.endpoint,
    )  # fmt: skip

    assert [r["tier"] for r in _records(result.text) if r["event"] == "stored"] == ["gpu0"]


@pytest.mark.parametrize(("view", "tokens"), [("basic", []), ("full", list(range(TOKENS)))])
async def test_token_ids_come_in_the_full_view(serve: Serve, view: str, tokens: list[int]) -> None:
    """A namespace that keeps token ids tells them, to whoever asks for them."""
    node = await serve(register=False)
    keeping = await node.client.register_namespace(namespace(keep_token_ids=True))
    offer = run("a", token_ids=range(TOKENS))
    await node.client.store("cpu0", keeping, [offer], payloads("a"))
    arguments = ("watch", "--view", view, "--limit", "1", "-o", "jsonl", "-e", node.endpoint)

    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kvtier.cli", *arguments, stdout=PIPE, env=ENVIRONMENT
    )
    out, _ = await asyncio.wait_for(process.communicate(), 30)

    assert _records(out.decode())[-1]["token_ids"] == tokens


@pytest.fixture(name="mortal")
def _mortal(tmp_path: Path) -> Iterator[Any]:
    """Starts a node that the test may kill, on the address of the one before."""
    started: list[Popen[str]] = []
    listen = "127.0.0.1:0"

    def start() -> tuple[Popen[str], str]:
        nonlocal listen
        tier = {"name": "cpu0", "medium": "cpu", "capacity": 4096, "shm_dir": str(tmp_path)}
        config = {"node_id": "mortal", "listen": listen, "drain_timeout": 0, "tiers": [tier]}
        path = tmp_path / "node.yaml"
        path.write_text(json.dumps(config))
        command = [sys.executable, "-m", "kvtier.server", "--config", str(path)]
        with (tmp_path / "log").open("a") as log:
            process = Popen(command, stdout=PIPE, stderr=log, text=True, env=ENVIRONMENT)
        started.append(process)
        assert process.stdout is not None
        listen = json.loads(process.stdout.readline())["listen"]
        return process, listen

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_a_watch_shows_the_restart_of_a_killed_node(cli: Any, start_cli: Any, mortal: Any) -> None:
    """The break, then RESET because of another epoch, then what the new life holds."""
    process, endpoint = mortal()
    _put(cli, endpoint, b"aaaa")
    watch = start_cli("watch", "-o", "jsonl", "-e", endpoint)
    shown = [json.loads(watch.stdout.readline())]
    while shown[-1]["event"] != "synced":
        shown.append(json.loads(watch.stdout.readline()))
    before = len(shown)

    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    mortal()
    while shown[-1]["event"] != "synced" or len(shown) == before:
        shown.append(json.loads(watch.stdout.readline()))

    life, after = shown[before - 1], shown[before:]
    events = [record["event"] for record in after if record["event"] != "state"]
    (reset,) = [record for record in after if record["event"] == "reset"]
    assert events == ["reset", "synced"]
    assert reset["reason"] == "RESET_REASON_EPOCH_CHANGED"
    assert reset["position"] is None
    assert (life["blocks"], after[-1]["blocks"]) == (1, 0)
    assert after[-1]["epoch"] != life["epoch"]
    states = [record["source"] for record in after if record["event"] == "state"]
    assert "SOURCE_STATE_DOWN" in states
