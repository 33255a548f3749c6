"""A live table of nodes and tiers."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from kvtier.cli.nodes import RunningNode

from .terminals import Terminal, on_terminal

DATA = bytes(range(256))


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (lambda terminal: terminal.press(b"q"), 0),
        (lambda terminal: terminal.press(b"\x03"), 130),
        (lambda terminal: terminal.process.send_signal(signal.SIGTERM), 143),
    ],
    ids=["q", "Ctrl-C", "SIGTERM"],
)
def test_a_terminal_is_redrawn_and_left_as_it_was(
    node: RunningNode, end: Callable[[Terminal], None], code: int
) -> None:
    """Lines fit its width; keys are read again as before, and the cursor is back."""
    with on_terminal("top", "-i", 0.1, "-e", node.endpoint, columns=70, lines=20) as terminal:
        before = terminal.modes
        # Rates are there from the second picture on.
        terminal.until(lambda: terminal.lines[3].endswith("  0") and terminal.lines[7])
        drawn, reading = terminal.lines, terminal.modes
        end(terminal)
        ended = terminal.end()

        assert ended == code
        assert reading != before
        assert terminal.modes == before
    assert drawn[0].startswith("kvtier top  ")
    assert drawn[2].startswith("NODE    ENDPOINT")
    assert drawn[3].startswith("node-a  ")
    assert drawn[5].startswith("NODE    TIER")
    assert terminal.lines[5:8] == drawn[5:8]
    assert not terminal.screen.cursor.hidden
    assert b"Traceback" not in terminal.raw


def test_one_picture_on_a_pipe_has_rates(cli: Any, node: RunningNode) -> None:
    """No escape sequence and no title: nodes, and below them tiers."""
    result = cli("top", "-c", 1, "-i", 0.1, "-e", node.endpoint)

    assert (result.code, result.err) == (0, "")
    nodes, tiers = (part.splitlines() for part in result.text.split("\n\n"))
    assert nodes[0].split() == [
        *("NODE", "ENDPOINT", "STATE", "UP", "FOLLOWERS", "LEASES", "HEAD", "BATCHES/S")
    ]
    assert nodes[1].split()[:3] == ["node-a", node.endpoint, "serving"]
    assert nodes[1].split()[-1] == "0"
    assert [row.split()[:5] for row in tiers[1:]] == [
        ["node-a", tier, "ready", "[..........]", "0%"] for tier in ("gpu0", "cpu0")
    ]


def test_rates_tell_what_happened_in_between(start_cli: Any, cli: Any, node: RunningNode) -> None:
    """Stores, loads and removals a second, in JSON, a record for each node and time."""
    process = start_cli("top", "-i", 0.2, "-e", node.endpoint, "-o", "jsonl")
    first = json.loads(process.stdout.readline())
    put = ("put", "-", "-n", "x", "--block-bytes", 64, "--tier", "cpu0", "-e", node.endpoint)
    stored = json.loads(cli(*put, "-o", "json", stdin=DATA).out)
    hashes = [record["block_hash"] for record in stored]
    assert cli("load", *hashes, "-n", "x", "--to", os.devnull, "-e", node.endpoint).code == 0
    assert cli("delete", *hashes, "-n", "x", "--yes", "-e", node.endpoint).code == 0

    seen = {"stored_per_s": 0.0, "loaded_per_s": 0.0, "removed_per_s": 0.0}
    batches, end = 0.0, time.monotonic() + 60
    while not (all(seen.values()) and batches):
        assert time.monotonic() < end, seen
        record = json.loads(process.stdout.readline())
        tier = next(tier for tier in record["tiers"] if tier["name"] == "cpu0")
        seen = {name: max(seen[name], tier[name]) for name in seen}
        batches = max(batches, record["batches_per_s"])

    assert (first["node_id"], first["state"]) == ("node-a", "serving")
    assert record["time"] > first["time"]


def test_a_node_that_does_not_answer_keeps_its_row(cli: Any, node: RunningNode, dead: str) -> None:
    """The others' are there, and the exit code is 4."""
    result = cli("top", "-c", 1, "-i", 0.1, "-e", dead, "-e", node.endpoint, "-o", "json")

    gone, here = json.loads(result.out)
    assert result.code == 4
    assert (gone["state"], gone["tiers"]) == ("unreachable", [])
    assert here["node_id"] == "node-a"
    assert result.err.startswith(f"error: {dead}: ")


def test_a_proxy_tells_of_the_tiers_behind_it(cli: Any, node: RunningNode) -> None:
    """It has no log, and so no batches."""
    command = (sys.executable, "-m", "kvtier.cli", "proxy", "--listen", "127.0.0.1:0")
    with ExitStack() as stack:
        proxy = stack.enter_context(
            subprocess.Popen(
                (*command, "--primary", node.endpoint), stdout=subprocess.PIPE, text=True
            )
        )
        stack.callback(proxy.terminate)
        assert proxy.stdout is not None
        endpoint = json.loads(proxy.stdout.readline())["listen"]
        assert cli("ping", "--wait", 30, "-e", endpoint).code == 0

        result = cli("top", "-c", 1, "-i", 0.2, "-e", endpoint, "-o", "json")

    (record,) = json.loads(result.out)
    assert result.code == 0
    assert record["batches_per_s"] is None
    assert {tier["name"] for tier in record["tiers"]} == {"node-a/gpu0", "node-a/cpu0"}
    assert {tier["stored_per_s"] for tier in record["tiers"]} == {0.0}


def test_pictures_end_with_their_reader(start_cli: Any, node: RunningNode) -> None:
    """`kvtier top | head` says nothing of it."""
    process = start_cli("top", "-i", 0.1, "-e", node.endpoint)
    process.stdout.readline()
    process.stdout.close()

    assert process.wait(30) == 141
    assert process.stderr.read() == b""
