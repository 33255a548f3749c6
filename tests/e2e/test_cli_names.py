"""`-o name`: what one command names, another takes."""

import json
from typing import Any

import pytest

NAMELESS = {
    "watch": ["watch"],
    "check": ["check"],
    "clear": ["clear", "--tier", "cpu0", "--yes"],
    "drain": ["drain", "--yes"],
    "unpin": ["unpin", "--owner", "nobody"],
    "version": ["version"],
    "demo": ["demo", "--requests", "1"],
}


@pytest.fixture(name="run")
def _run(cli: Any, node: Any) -> Any:
    """Runs a command that succeeds and returns its lines."""

    def run(*arguments: object, stdin: bytes = b"") -> list[str]:
        result = cli(*arguments, "-e", node.endpoint, "-o", "name", stdin=stdin)
        assert result.code == 0, result.err
        lines: list[str] = result.text.splitlines()
        return lines

    return run


def test_names_of_blocks_are_taken_wherever_hashes_are(run: Any, cli: Any, node: Any) -> None:
    """What put names, a listing names too, and lookup, load, describe and delete take."""
    here = ("-n", "named", "-e", node.endpoint)
    put = run("put", "-", "-n", "named", "--block-bytes", 4, "--tier", "cpu0", stdin=b"aaaabbbb")
    stdin = "\n".join(put).encode()

    listed = run("get", "blocks")
    looked_up = cli("lookup", "--file", "-", *here, "-o", "json", stdin=stdin)
    loaded = cli("load", *put, *here)
    described = run("describe", "block", put[0], "-n", "named")
    deleted = run("delete", *put[:1], "-n", "named", "--yes")

    assert [name.partition("/")[0] for name in put] == ["block"] * 2
    assert listed == put
    assert json.loads(looked_up.out)[0]["union_prefix_length"] == 2
    assert loaded.out == b"aaaabbbb"
    assert described == deleted == put[:1]
    assert run("get", "blocks") == put[1:]


def test_only_what_was_done_is_named(run: Any, cli: Any, node: Any) -> None:
    """A block that was not there is no name in the output of delete, and the exit code tells."""
    (stored,) = run("put", "-", "-n", "named", "--block-bytes", 4, stdin=b"aaaa")
    arguments = ("delete", "00" * 32, stored, "-n", "named", "--yes", "-o", "name")

    result = cli(*arguments, "-e", node.endpoint)

    assert (result.code, result.text.splitlines()) == (3, [stored])


def test_the_name_of_a_pin_takes_it_back(run: Any, cli: Any, node: Any) -> None:
    """One pin over several blocks is one name."""
    put = run("put", "-", "-n", "named", "--block-bytes", 4, "--tier", "cpu0", stdin=b"aaaabbbb")

    pins = run("pin", *put, "-n", "named", "--tier", "cpu0")
    back = cli("unpin", *pins, "-e", node.endpoint)

    assert len(pins) == 1
    assert pins[0].startswith("pin/")
    assert back.code == 0, back.err


def test_the_name_of_a_node_describes_it(run: Any, cli: Any, node: Any) -> None:
    """Alone and among several; one that is not among them is not found."""
    both = ("-e", node.endpoint, "-e", "127.0.0.1:1", "--timeout", 5, "-o", "json")
    (name,) = run("get", "nodes")

    told = cli("describe", "node", name, *both)
    missing = cli("describe", "node", "node/else", "-e", node.endpoint)
    unclear = cli("describe", "node", *both)

    assert json.loads(told.out)["node_id"] == "node-a"
    assert told.code == 0
    assert missing.code == 3
    assert missing.err == ("error: kvtier: none of 1 endpoints is node 'else'; they are node-a\n")
    assert unclear.code == 2


@pytest.mark.parametrize("arguments", NAMELESS.values(), ids=NAMELESS.keys())
def test_what_has_no_names_says_so_before_it_does_anything(
    cli: Any, node: Any, arguments: list[str]
) -> None:
    """One line and exit code 2; the node is as it was."""
    stored = ("put", "-", "-n", "named", "--block-bytes", 4, "--tier", "cpu0")
    assert cli(*stored, "-e", node.endpoint, stdin=b"aaaa").code == 0

    result = cli("-e", node.endpoint, *arguments, "-o", "name")
    left = json.loads(cli("get", "blocks", "-e", node.endpoint, "-o", "json").out)

    assert (result.code, result.text) == (2, "")
    assert result.err == (
        "error: kvtier: what this command tells has no names; choose another format with -o\n"
    )
    assert len(left) == 1
