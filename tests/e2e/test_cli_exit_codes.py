"""Exit codes and machine output when something is wrong."""

import json
from typing import Any

import pytest

HASH = "ab" * 32
QUESTIONS = {
    "get nodes": ["get", "nodes"],
    "get tiers": ["get", "tiers"],
    "get namespaces": ["get", "namespaces"],
    "get blocks": ["get", "blocks"],
    "describe node": ["describe", "node"],
    "describe block": ["describe", "block", HASH, "-n", "x"],
    "lookup": ["lookup", HASH, "-n", "x"],
    "lookup of all nodes": ["lookup", HASH, "-n", "x", "--all-nodes"],
    "watch": ["watch"],
    "check": ["check"],
    "ping": ["ping", "-c", "1"],
    "top": ["top", "-c", "1", "-i", "0.1"],
    "bench": ["bench"],
    "load": ["load", HASH, "-n", "x"],
    "delete": ["delete", HASH, "-n", "x", "--yes"],
    "clear": ["clear", "--tier", "cpu0", "--yes"],
    "drain": ["drain", "--yes"],
    "put": ["put", "-", "-n", "x", "--block-bytes", "4"],
}
MISSING = {
    "an unknown namespace to list": ["get", "blocks", "-n", "nope"],
    "an unknown tier to list": ["get", "blocks", "--tier", "nope"],
    "an unknown namespace to look up": ["lookup", HASH, "-n", "nope"],
    "an unknown namespace to rank nodes for": ["lookup", HASH, "-n", "nope", "--all-nodes"],
    "an unknown block to describe": ["describe", "block", HASH, "-n", "known"],
    "an unknown block to load": ["load", HASH, "-n", "known"],
    "an unknown block to delete": ["delete", HASH, "-n", "known", "--yes"],
    "an unknown tier to clear": ["clear", "--tier", "nope", "--yes"],
    "an unknown tier to watch": ["watch", "--tier", "nope"],
    "an unknown namespace to watch": ["watch", "-n", "nope"],
    "an unknown tier to check": ["check", "--tier", "nope"],
    "an unknown namespace to check": ["check", "-n", "nope"],
    "an unknown namespace to put into": ["put", "-", "-n", "nope"],
}


def _is_json_or_empty(text: str) -> bool:
    if text:
        json.loads(text)
    return True


@pytest.mark.parametrize("arguments", QUESTIONS.values(), ids=QUESTIONS.keys())
def test_a_dead_node_is_told_by_exit_code_4(cli: Any, dead: str, arguments: list[str]) -> None:
    """Every command says in one line which node cannot be reached, and stdout stays JSON."""
    result = cli(*arguments, "-e", dead, "--timeout", 2, "-o", "json", stdin=b"data")

    assert result.code == 4, result.err
    assert result.err.count("\n") == 1
    assert result.err.startswith(f"error: {dead}: ")
    assert _is_json_or_empty(result.text)


@pytest.mark.parametrize("arguments", MISSING.values(), ids=MISSING.keys())
def test_what_is_not_there_is_told_by_exit_code_3(
    cli: Any, node: Any, arguments: list[str]
) -> None:
    """An unknown namespace, tier or block is not mistaken for success or for a dead node."""
    cli("put", "-", "-n", "known", "--block-bytes", 4, "-e", node.endpoint, stdin=b"data")

    result = cli(*arguments, "-e", node.endpoint, "-o", "json", stdin=b"data")

    assert result.code == 3, result.err
    assert result.err.count("\n") == 1
    assert result.err.startswith("error: ")
    assert _is_json_or_empty(result.text)


def test_a_dead_node_among_live_ones_keeps_its_row(cli: Any, node: Any, dead: str) -> None:
    """What the live nodes answered is printed, the dead one is marked, and the exit code is 4."""
    result = cli("get", "nodes", "-e", node.endpoint, "-e", dead, "-o", "json")

    alive, gone = json.loads(result.text)
    assert result.code == 4
    assert (alive["node_id"], alive["state"]) == ("node-a", "serving")
    assert (gone["endpoint"], gone["state"]) == (dead, "unreachable")
    assert [tier["name"] for tier in alive["tiers"]] == ["gpu0", "cpu0"]


def test_what_a_node_refuses_as_malformed_is_wrong_use(cli: Any, node: Any) -> None:
    """A value that only the node can judge ends with exit code 2 as well."""
    cli("put", "-", "-n", "known", "--block-bytes", 4, "-e", node.endpoint, stdin=b"data")

    result = cli("get", "blocks", "-n", "known", "--group", 9, "-e", node.endpoint)

    assert result.code == 2, (result.text, result.err)
    assert "9" in result.err


def test_the_environment_names_nodes_too(start_cli: Any, node: Any) -> None:
    """KVTIER_ENDPOINTS stands in for --endpoint."""
    process = start_cli("get", "tiers", "-o", "jsonl", KVTIER_ENDPOINTS=node.endpoint)

    out, _ = process.communicate()

    assert [json.loads(line)["name"] for line in out.splitlines()] == ["gpu0", "cpu0"]


def test_empty_lists_are_empty_in_every_format(cli: Any, node: Any) -> None:
    """Nothing there is [] in JSON, no line in JSON lines, and titles alone in a table."""

    def listing(output: str) -> str:
        return str((cli("get", "blocks", "-e", node.endpoint, "-o", output)).text)

    assert listing("json") == "[]\n"
    assert listing("jsonl") == ""
    assert (listing("table")).split()[:2] == ["NODE", "TIER"]
