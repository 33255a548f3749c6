"""Following nodes at the terminal."""

import json
import os
import signal
from time import perf_counter
from typing import Any

import pytest


def _events(process: Any, count: int) -> list[dict[str, Any]]:
    return [json.loads(process.stdout.readline()) for _ in range(count)]


def _until(process: Any, event: str) -> dict[str, Any]:
    while True:
        (record,) = _events(process, 1)
        if record["event"] == event:
            return record


def test_a_watch_tells_what_is_there_and_what_changes(cli: Any, start_cli: Any, node: Any) -> None:
    """First the snapshot, then SYNCED, then stores and removals as they happen."""
    put = ("put", "-", "-n", "w", "--block-bytes", 4, "--tier", "cpu0", "-e", node.endpoint)
    cli(*put, stdin=b"aaaabbbb")

    process = start_cli("watch", "-o", "jsonl", "-e", node.endpoint)
    held = _until(process, "stored")
    synced = _until(process, "synced")
    cli(*put, stdin=b"aaaacccc")
    stored = _until(process, "stored")
    cli("delete", stored["block_hashes"][0], "-n", "w", "--yes", "-e", node.endpoint)
    removed = _until(process, "removed")

    assert held["sequence"] is None
    assert len(held["block_hashes"]) == synced["blocks"] == 2
    assert stored["tier"] == "cpu0"
    assert stored["parent_block_hashes"] == held["block_hashes"][:1]
    assert removed["block_hashes"] == stored["block_hashes"]
    assert removed["sequence"] == stored["sequence"] + 1
    assert removed["reason"] == "REMOVAL_REASON_DELETED"


def test_a_watch_ends_after_so_many_events(cli: Any, node: Any) -> None:
    """--limit counts block events, and the rest of the output is whole."""
    for data in (b"aaaa", b"bbbb", b"cccc"):
        cli("put", "-", "-n", "w", "--block-bytes", 4, "-e", node.endpoint, stdin=data)

    result = cli("watch", "--limit", 1, "-o", "json", "-e", node.endpoint)

    kinds = [record["event"] for record in json.loads(result.text)]
    assert result.code == 0
    assert kinds.count("stored") == 1
    assert kinds[-1] == "stored"


def test_events_that_do_not_come_in_time_are_a_failure(cli: Any, node: Any) -> None:
    """--for alone ends well; with --limit, too few events by then are exit code 4."""
    some_time = cli("watch", "--for", 1, "-e", node.endpoint)
    too_late = cli("watch", "--for", 1, "--limit", 1, "-e", node.endpoint)

    assert some_time.code == 0, some_time.err
    assert "SYNCED" in some_time.text
    assert too_late.code == 4


def test_a_watch_sees_only_what_it_asked_for(cli: Any, node: Any) -> None:
    """Filters by tier and by namespace hold."""
    for tier, name in (("gpu0", "a"), ("cpu0", "a"), ("cpu0", "b")):
        cli(
            "put", "-", "-n", name, "--block-bytes", 4, "--tier", tier, "-e", node.endpoint,
            stdin=b"data",
        )  # fmt: skip

    result = cli(
        "watch", "--tier", "cpu0", "-n", "b", "--for", 1, "-o", "jsonl", "-e", node.endpoint
    )

    records = [json.loads(line) for line in result.text.splitlines()]
    stored = [(r["tier"], r["namespace_name"]) for r in records if r["event"] == "stored"]
    assert stored == [("cpu0", "b")]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("hung", [False, True], ids=["live", "hung"])
def test_a_watch_ends_when_told(
    start_cli: Any, node: Any, server_of: Any, *, number: signal.Signals, code: int, hung: bool
) -> None:
    """Ctrl-C and SIGTERM end a watch soon, quietly, also when the node hangs."""
    process = start_cli("watch", "-o", "jsonl", "-e", node.endpoint)
    _until(process, "synced")
    pid = server_of(os.getpid())
    if hung:
        os.kill(pid, signal.SIGSTOP)

    try:
        start = perf_counter()
        process.send_signal(number)
        _, err = process.communicate()
        took = perf_counter() - start
    finally:
        os.kill(pid, signal.SIGCONT)

    assert process.returncode == code
    assert err == b""
    assert took < 3
