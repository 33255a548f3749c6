"""Round trips to nodes and proxies."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from kvtier.cli.nodes import RunningNode
from tests.waiting import until


@pytest.fixture(name="proxy")
def _proxy(server: RunningNode) -> Iterator[str]:
    """The address of a proxy before the node."""
    command = (sys.executable, "-m", "kvtier.cli", "proxy", "--listen", "127.0.0.1:0")
    with subprocess.Popen(
        (*command, "--primary", server.endpoint), stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["listen"]
        finally:
            process.terminate()


def test_every_round_trip_to_a_node_is_measured(cli: Any, server: RunningNode) -> None:
    """As many as asked for, with the least, the median, the 99th percentile and the longest."""
    result = cli("ping", "-c", 4, "-i", 0, "-e", server.endpoint, "-o", "json")

    (record,) = json.loads(result.out)
    assert result.code == 0
    assert {key: record[key] for key in ("endpoint", "state", "sent", "lost")} == {
        "endpoint": server.endpoint,
        "state": "ready",
        "sent": 4,
        "lost": 0,
    }
    assert 0 < record["min_ms"] <= record["p50_ms"] <= record["p99_ms"] <= record["max_ms"] < 5000


def test_a_proxy_answers_too(cli: Any, proxy: str, server: RunningNode) -> None:
    """Once it is ready, which --wait waits for."""
    result = cli("ping", "--wait", 30, "-c", 1, "-e", proxy, "-e", server.endpoint)

    assert result.code == 0, result.err
    titles, *rows = result.text.splitlines()
    assert titles.split()[:4] == ["ENDPOINT", "STATE", "SENT", "LOST"]
    assert [row.split()[:4] for row in rows] == [
        [endpoint, "ready", "1", "0"] for endpoint in (proxy, server.endpoint)
    ]


def test_an_endpoint_that_never_answers_is_told(cli: Any, server: RunningNode, dead: str) -> None:
    """It keeps its row, the others' are there, and the exit code is 4."""
    result = cli("ping", "-c", 2, "-i", 0, "-e", server.endpoint, "-e", dead, "-o", "jsonl")

    here, gone = map(json.loads, result.out.splitlines())
    assert result.code == 4
    assert (here["state"], here["lost"]) == ("ready", 0)
    assert (gone["state"], gone["sent"], gone["lost"]) == ("unreachable", 2, 2)
    assert gone["p99_ms"] is None
    assert result.err.startswith(f"error: {dead}: cannot be reached (UNAVAILABLE)")


def test_waiting_for_an_endpoint_that_is_not_there_ends(cli: Any, dead: str) -> None:
    """After the stated seconds, with why, and no table."""
    result = cli("ping", "--wait", 0.5, "-e", dead)

    assert (result.code, result.out) == (4, b"")
    assert result.err == f"error: {dead}: is not ready within 0.5 s: cannot be reached\n"


@pytest.mark.slow
def test_a_node_that_drains_answers_but_is_not_ready(cli: Any, start_node: Any) -> None:
    """A round trip needs no readiness; waiting does."""
    node = start_node(
        {"tiers": [{"name": "cpu0", "medium": "cpu", "capacity": 1 << 20}], "drain_timeout": 0}
    )
    assert cli("drain", "--yes", "-e", node.endpoint).code == 0

    pinged = cli("ping", "-c", 1, "-e", node.endpoint, "-o", "json")
    waited = cli("ping", "--wait", 1, "-c", 1, "-e", node.endpoint)

    assert (pinged.code, json.loads(pinged.out)[0]["state"]) == (0, "not ready")
    assert waited.code == 4
    assert "is not ready within 1 s: it answers that it is not" in waited.err


@pytest.fixture(name="checked")
def _checked() -> Iterator[tuple[str, list[bytes]]]:
    """A server that says that it is ready: where it is, and the checks that have come."""
    checks: list[bytes] = []

    def check(request: bytes, context: object) -> bytes:
        checks.append(request)
        return b"\x08\x01"

    handler = grpc.method_handlers_generic_handler(
        "grpc.health.v1.Health", {"Check": grpc.unary_unary_rpc_method_handler(check)}
    )
    with ThreadPoolExecutor(1) as threads:
        server = grpc.server(threads)
        server.add_generic_rpc_handlers((handler,))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        yield f"127.0.0.1:{port}", checks
        server.stop(None).wait()


async def test_an_interrupt_ends_it_with_what_was_measured(
    start_cli: Any, checked: tuple[str, list[bytes]]
) -> None:
    """The table comes, and the exit code is 130."""
    endpoint, checks = checked
    process = start_cli("ping", "-c", 100_000, "-i", 0.01, "-e", endpoint, "-o", "jsonl")
    await until(lambda: len(checks) >= 10, 30)

    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)

    assert (process.returncode, err) == (130, b"")
    record = json.loads(out)
    assert record["lost"] == 0
    # The first made the connection, and the last may not have been answered.
    assert len(checks) - 2 <= record["sent"] <= len(checks) - 1
