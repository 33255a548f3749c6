"""Lists that are looked at again and again, in a pipe."""

import json
import os
import signal
import socket
from collections.abc import Iterator
from time import perf_counter
from typing import Any

import pytest
import yaml

LISTS = ("nodes", "tiers", "namespaces", "blocks")
SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 143}
# Far less than any timeout of the command line, and enough for a machine that is busy.
SOON = 3.0


@pytest.fixture(name="put")
def _put(cli: Any, node: Any) -> Any:
    """Stores a block, or several of four bytes, in the host tier."""

    def put(data: bytes) -> list[str]:
        arguments = ("put", "-", "-n", "w", "--block-bytes", 4, "--tier", "cpu0", "-o", "json")
        result = cli(*arguments, "-e", node.endpoint, stdin=data)
        assert result.code == 0, result.err
        return [record["block_hash"] for record in json.loads(result.out)]

    return put


@pytest.fixture(name="watch")
def _watch(start_cli: Any, node: Any) -> Any:
    """Starts `kvtier get THING -w` against the node."""

    def watch(*arguments: object) -> Any:
        return start_cli("get", *arguments, "-w", "--interval", 0.1, "-e", node.endpoint)

    return watch


def told_to_end(process: Any, number: signal.Signals) -> tuple[bytes, bytes, float]:
    """Send a signal; return what is left of stdout and stderr, and the seconds until the end."""
    start = perf_counter()
    process.send_signal(number)
    # Not communicate(), which passes over what lies in the buffers of earlier reads.
    out, err = process.stdout.read(), process.stderr.read()
    process.wait(60)
    return out, err, perf_counter() - start


def test_rows_that_change_are_appended(watch: Any, put: Any) -> None:
    """First all rows, then only those that differ from before, each as it is now."""
    process = watch("tiers", "-o", "jsonl")
    gpu, cpu = (json.loads(process.stdout.readline()) for _ in range(2))

    put(b"aaaabbbb")
    changed = json.loads(process.stdout.readline())
    out, err, _ = told_to_end(process, signal.SIGINT)

    assert (gpu["name"], cpu["name"], cpu["ready_blocks"]) == ("gpu0", "cpu0", 0)
    assert changed["name"] == "cpu0"
    # The look may have come between the two blocks' arrival and their end as a store.
    rest = [json.loads(line) for line in out.splitlines()]
    assert {record["name"] for record in rest} <= {"cpu0"}
    assert [*rest, changed][0 if rest else -1]["ready_blocks"] == 2
    assert (process.returncode, err) == (130, b"")


def test_new_blocks_are_appended(watch: Any, put: Any) -> None:
    """A name a line, as soon as a block is there, and none twice."""
    first = put(b"aaaa")
    process = watch("blocks", "-o", "name")

    told = [process.stdout.readline()]
    more = put(b"aaaabbbb")[1:]
    told.append(process.stdout.readline())
    out, _, _ = told_to_end(process, signal.SIGINT)

    assert [line.decode().strip() for line in told] == [f"block/{h}" for h in first + more]
    assert out == b""


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("things", LISTS)
def test_a_watched_list_ends_when_told(
    watch: Any, put: Any, things: str, number: signal.Signals
) -> None:
    """Quietly and soon, and what was printed is a whole document."""
    put(b"aaaa")
    process = watch(things, "-o", "json")
    begun = process.stdout.readline()

    out, err, took = told_to_end(process, number)

    assert json.loads(begun + out)
    assert (process.returncode, err) == (SIGNALS[number], b"")
    assert took < SOON


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_watched_list_ends_when_told_although_the_node_hangs(
    watch: Any, server_of: Any, number: signal.Signals
) -> None:
    """A question that nobody answers is given up at once; what came before is whole."""
    process = watch("tiers", "-o", "yaml")
    begun = [process.stdout.readline() for _ in range(2)]
    pid = server_of(os.getpid())
    os.kill(pid, signal.SIGSTOP)
    try:
        out, err, took = told_to_end(process, number)
    finally:
        os.kill(pid, signal.SIGCONT)

    tiers = yaml.safe_load(b"".join([*begun, out]))
    assert [tier["name"] for tier in tiers] == ["gpu0", "cpu0"]
    assert (process.returncode, err) == (SIGNALS[number], b"")
    assert took < SOON


@pytest.fixture(name="silent")
def _silent() -> Iterator[socket.socket]:
    """Takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(60)
        yield listening


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("command", [("get", "nodes"), ("get", "nodes", "-w"), ("watch",)])
def test_a_command_that_gets_no_answer_ends_when_told(
    start_cli: Any, silent: socket.socket, command: tuple[str, ...], number: signal.Signals
) -> None:
    """Long before its timeout, with nothing on stdout and no traceback."""
    endpoint = f"127.0.0.1:{silent.getsockname()[1]}"
    process = start_cli(*command, "-e", endpoint, "--timeout", 60, "-o", "json")
    connection, _ = silent.accept()

    with connection:
        out, err, took = told_to_end(process, number)

    assert (process.returncode, out, err) == (SIGNALS[number], b"", b"")
    assert took < SOON


def test_a_watch_of_nobody_fails_at_once(start_cli: Any) -> None:
    """A node that cannot be reached to begin with is an error, as without --watch."""
    process = start_cli("get", "tiers", "-w", "-e", "127.0.0.1:1", "-o", "json")

    out, err = process.communicate(timeout=60)

    assert (process.returncode, out) == (4, b"")
    assert err.decode().startswith("error: 127.0.0.1:1: cannot be reached")


def test_a_node_that_is_lost_is_told_once_and_taken_up_again(
    start_cli: Any, start_node: Any, node: Any
) -> None:
    """The rows of the others go on, and one line on stderr says who is missing."""
    lost = ("get", "nodes", "-w", "--interval", 0.1, "-o", "jsonl")
    process = start_cli(*lost, "-e", node.endpoint, "-e", "127.0.0.1:1", "--timeout", 5)
    rows = [json.loads(process.stdout.readline()) for _ in range(2)]
    told = process.stderr.readline().decode()

    _, err, _ = told_to_end(process, signal.SIGINT)

    assert [row["state"] for row in rows] == ["serving", "unreachable"]
    assert told.startswith("error: 127.0.0.1:1: cannot be reached")
    assert err == b""


def test_an_interval_of_no_time_is_wrong_use(cli: Any) -> None:
    """A node is not asked in a tight loop."""
    result = cli("get", "tiers", "-w", "--interval", 0)

    assert result.code == 2
    assert "0.1" in result.err
