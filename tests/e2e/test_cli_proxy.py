"""The command line over a proxy in a process of its own."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kvtier.cli.nodes import RunningNode

SIZE = 64
DATA = bytes(range(256)) * 2


def listening(process: subprocess.Popen[str]) -> str:
    """Return the address that a proxy says that it listens on."""
    assert process.stdout is not None
    told = json.loads(process.stdout.readline())
    assert told["event"] == "serving"
    address: str = told["listen"]
    return address


@pytest.fixture(name="far", scope="module")
def _far(start_node: Any) -> RunningNode:
    """A node behind the other."""
    tier = {"name": "cpu0", "medium": "cpu", "capacity": "1MiB", "slot_bytes": SIZE}
    running: RunningNode = start_node({"node_id": "node-b", "drain_timeout": 0, "tiers": [tier]})
    return running


@pytest.fixture(name="start_proxy")
def _start_proxy() -> Iterator[Callable[..., str]]:
    """Starts proxies, and returns their addresses."""
    running = []

    def start(*arguments: str) -> str:
        command = (sys.executable, "-m", "kvtier.cli", "proxy", "--listen", "127.0.0.1:0")
        process = subprocess.Popen((*command, *arguments), stdout=subprocess.PIPE, text=True)
        running.append(process)
        return listening(process)

    yield start
    for process in running:
        process.terminate()
    with ExitStack() as stack:
        for process in running:
            stack.enter_context(process)
    assert [process.returncode for process in running] == [0] * len(running)


@pytest.fixture(name="both")
def _both(node: RunningNode, far: RunningNode) -> list[RunningNode]:
    return [node, far]


@pytest.fixture(name="blocks")
def _blocks(cli: Any, both: list[RunningNode]) -> dict[str, str]:
    """The hash of one block on each node, by the node's id."""
    found = {}
    for running, data in zip(both, (DATA[:SIZE], DATA[SIZE : 2 * SIZE]), strict=True):
        put = ("put", "-", "-n", "files", "--block-bytes", SIZE, "--tier", "cpu0", "-o", "json")
        result = cli(*put, "-e", running.endpoint, stdin=data)
        assert result.code == 0, result.err
        found[running.node_id] = json.loads(result.out)[0]["block_hash"]
    return found


@pytest.fixture(name="ask")
def _ask(cli: Any) -> Callable[..., Any]:
    """Runs a command and returns its records."""

    def ask(*arguments: object) -> Any:
        result = cli(*arguments, "-o", "json")
        assert result.code == 0, result.err
        return json.loads(result.out)

    return ask


@pytest.fixture(name="looked_up")
def _looked_up(cli: Any, blocks: dict[str, str]) -> Callable[..., None]:
    """Waits until a lookup of a node's block finds so long a prefix in each tier."""

    def wait(proxy: str, node_id: str, lengths: dict[str, int]) -> None:
        end, found = time.monotonic() + 20, dict[str, int]()
        while found != lengths and time.monotonic() < end:
            # One that has not heard of its nodes yet knows no namespace.
            result = cli("lookup", blocks[node_id], "-n", "files", "-e", proxy, "-o", "json")
            found = json.loads(result.out)[0]["prefix_lengths"] if result.code == 0 else {}
        assert found == lengths

    return wait


def test_what_all_nodes_hold_is_asked_at_one_address(
    ask: Any, looked_up: Any, start_proxy: Any, both: list[RunningNode], blocks: dict[str, str]
) -> None:
    """Nodes, tiers, namespaces, blocks and lookups; tiers carry the name of their node."""
    near, far = (running.endpoint for running in both)
    proxy = start_proxy("--primary", near, "--secondary", far)
    here = ("-e", proxy)
    looked_up(proxy, "node-a", {"node-a/gpu0": 0, "node-a/cpu0": 1, "node-b/cpu0": 0})
    looked_up(proxy, "node-b", {"node-a/gpu0": 0, "node-a/cpu0": 0, "node-b/cpu0": 1})

    (described,) = ask("get", "nodes", *here)
    tiers = {record["name"] for record in ask("get", "tiers", *here)}
    names = {record["name"] for record in ask("get", "namespaces", *here)}
    listed = {record["block_hash"] for record in ask("get", "blocks", "-n", "files", *here)}

    assert described["node_id"].startswith("proxy-")
    assert tiers == {"node-a/gpu0", "node-a/cpu0", "node-b/cpu0"}
    assert "files" in names
    assert set(blocks.values()) <= listed


@pytest.mark.parametrize("known", [False, True])
def test_a_store_through_the_proxy_is_refused_and_says_where_to_go(
    cli: Any, looked_up: Any, start_proxy: Any, node: RunningNode, known: bool
) -> None:
    """A proxy has no room of its own: the message names the primary, whatever is called first."""
    proxy = start_proxy("--primary", node.endpoint)
    if known:
        looked_up(proxy, "node-a", {"node-a/gpu0": 0, "node-a/cpu0": 1})

    result = cli(
        "put", "-", "-n", "files", "--block-bytes", SIZE, "--tier", "cpu0", "-e", proxy, stdin=DATA
    )

    assert result.code == 1
    assert node.endpoint in result.err


def test_the_secondaries_are_those_that_a_file_names(
    looked_up: Any, start_proxy: Any, node: RunningNode, far: RunningNode, tmp_path: Path
) -> None:
    """Whoever is added to it joins while the proxy runs."""
    file = tmp_path / "nodes"
    file.write_text("# none\n")
    proxy = start_proxy("--primary", node.endpoint, "--secondaries-file", str(file))
    looked_up(proxy, "node-b", {"node-a/gpu0": 0, "node-a/cpu0": 0})

    file.write_text(f"{far.endpoint}\n")

    looked_up(proxy, "node-b", {"node-a/gpu0": 0, "node-a/cpu0": 0, "node-b/cpu0": 1})


@pytest.mark.usefixtures("blocks")
def test_tiers_of_a_node_that_went_are_told_as_unreachable(
    cli: Any, looked_up: Any, start_proxy: Any, node: RunningNode, tmp_path: Path
) -> None:
    """A proxy goes on naming them, and whatever looks at it shows what it knows."""
    config = (
        f"node_id: node-c\ntiers: [{{name: cpu0, medium: cpu, capacity: 64, shm_dir: {tmp_path}}}]"
    )
    (tmp_path / "node.yaml").write_text(config)
    command = (sys.executable, "-m", "kvtier.server", "--config", str(tmp_path / "node.yaml"))
    with subprocess.Popen(
        (*command, "--listen", "127.0.0.1:0"), stdout=subprocess.PIPE, text=True
    ) as gone:
        try:
            proxy = start_proxy("--primary", node.endpoint, "--secondary", listening(gone))
            looked_up(proxy, "node-a", {"node-a/gpu0": 0, "node-a/cpu0": 1, "node-c/cpu0": 0})
        finally:
            gone.terminate()
    looked_up(proxy, "node-a", {"node-a/gpu0": 0, "node-a/cpu0": 1})

    looks = (("get", "tiers"), ("get", "nodes"), ("describe", "node"), ("top", "-c", 1, "-i", 0.1))
    results = [cli(*look, "-e", proxy) for look in looks]

    assert [(result.code, result.err) for result in results] == [(0, "")] * len(looks)
    assert all("node-c/cpu0" in result.text for result in results)
    assert all("unreachable" in result.text for result in results)


def test_a_proxy_cannot_be_checked_and_says_so_at_once(
    cli: Any, start_proxy: Any, node: RunningNode
) -> None:
    """It is wrong use, and the message says what to check."""
    proxy = start_proxy("--primary", node.endpoint)

    result = cli("check", "-e", proxy)

    assert (result.code, result.out) == (2, b"")
    assert result.err == (
        f"error: {proxy}: is a proxy, which has no events of its own to check; "
        "name its nodes with -e\n"
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "primary"),
        (("--primary", "nowhere"), "HOST:PORT"),
        (("--primary", "a:1", "--secondary", "a:1"), "the primary, too"),
        (("--primary", "a:1", "--secondary", "b:1", "--secondaries-dns", "c:1"), "one of them"),
        (("--primary", "a:1", "--listen", "0.0.0.0:0"), "insecure"),
    ],
)
def test_settings_that_cannot_be_stop_the_start(arguments: tuple[str, ...], told: str) -> None:
    """With one clear line, and the exit code of wrong usage."""
    done = subprocess.run(
        (sys.executable, "-m", "kvtier.cli", "proxy", *arguments),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr
