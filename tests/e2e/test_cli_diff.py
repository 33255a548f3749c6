"""Setting what two nodes hold against each other."""

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from kvtier.cli.nodes import RunningNode

SIZE = 64
Put = Callable[..., list[str]]


class Pair(NamedTuple):
    """Two nodes, and the options that name them."""

    near: RunningNode
    far: RunningNode

    @property
    def named(self) -> tuple[str, ...]:
        return ("-e", self.near.endpoint, "-e", self.far.endpoint)


@pytest.fixture(name="second", scope="module")
def _second(start_node: Any) -> RunningNode:
    tiers = [
        {"name": name, "medium": "cpu", "capacity": "1MiB", "slot_bytes": SIZE}
        for name in ("cpu0", "cpu1")
    ]
    node: RunningNode = start_node({"node_id": "node-b", "drain_timeout": 0, "tiers": tiers})
    return node


@pytest.fixture(name="pair")
def _pair(cli: Any, node: RunningNode, second: RunningNode) -> Iterator[Pair]:
    """Two nodes that hold nothing, and know no namespace when the test is over."""
    for tier in ("cpu0", "cpu1"):
        assert cli("clear", "--tier", tier, "--yes", "-e", second.endpoint).code == 0
    yield Pair(node, second)
    for each in (node, second):
        listed = cli("get", "namespaces", "-e", each.endpoint, "-o", "json")
        for record in json.loads(listed.out):
            cli("delete-namespace", record["name"], "--yes", "-e", each.endpoint)


@pytest.fixture(name="put")
def _put(cli: Any) -> Put:
    """Stores bytes as blocks of a node's tier, and returns their hashes."""

    def put(node: RunningNode, text: str, *, tier: str = "cpu0", namespace: str = "x") -> list[str]:
        where = ("-e", node.endpoint, "-n", namespace, "--tier", tier)
        data = b"".join(letter.encode() * SIZE for letter in text)
        result = cli("put", "-", *where, "--block-bytes", SIZE, "-o", "json", stdin=data)
        assert result.code == 0, result.err
        return [record["block_hash"] for record in json.loads(result.out)]

    return put


def counts(result: Any) -> list[tuple[str, str, int, int, int]]:
    keys = ("namespace_name", "tier", "only_a", "only_b", "both")
    return [tuple(record[key] for key in keys) for record in json.loads(result.out)]


def test_nodes_that_hold_the_same_do_not_differ(cli: Any, pair: Pair, put: Put) -> None:
    """In whichever tiers; the exit code is 0."""
    put(pair.near, "abc", tier="gpu0")
    put(pair.near, "ab", tier="cpu0")
    put(pair.far, "abc", tier="cpu1")

    result = cli("diff", "node-a", "node-b", *pair.named)

    assert (result.code, result.err) == (0, "")
    titles, row = result.text.splitlines()
    assert titles.split("  ")[0] == "NAMESPACE"
    assert titles.endswith("ONLY node-a  ONLY node-b  BOTH")
    assert row.split()[::4] == ["x", "3"]


def test_what_only_one_holds_is_counted(cli: Any, pair: Pair, put: Put) -> None:
    """By namespace, also those that one node alone knows; the exit code is 6."""
    put(pair.near, "abc")
    put(pair.far, "abde")
    put(pair.far, "f", namespace="y")

    result = cli("diff", pair.near.endpoint, pair.far.endpoint, "-o", "json")
    one = cli("diff", pair.near.endpoint, pair.far.endpoint, "-n", "y", "-o", "json")

    assert result.code == 6
    assert counts(result) == [("x", "", 1, 2, 2), ("y", "", 0, 1, 0)]
    near, far = pair.near.endpoint, pair.far.endpoint
    assert result.err == f"error: kvtier: 1 blocks are only on {near}, and 3 only on {far}\n"
    assert (one.code, counts(one)) == (6, [("y", "", 0, 1, 0)])


def test_tiers_are_told_apart_on_request(cli: Any, pair: Pair, put: Put) -> None:
    """By their names; or only some are looked at."""
    put(pair.near, "ab", tier="cpu0")
    put(pair.far, "ab", tier="cpu1")
    put(pair.far, "a", tier="cpu0")

    apart = cli("diff", "node-a", "node-b", *pair.named, "--by-tier", "-o", "json")
    some = cli("diff", "node-a", "node-b", *pair.named, "--tier", "cpu0", "-o", "json")

    assert counts(apart) == [("x", "cpu0", 1, 0, 1), ("x", "cpu1", 0, 2, 0)]
    assert counts(some) == [("x", "", 1, 0, 1)]


@pytest.mark.parametrize("output", ["json", "jsonl", "table"])
def test_the_differing_blocks_are_listed_on_request(
    cli: Any, pair: Pair, put: Put, output: str
) -> None:
    """Each with the node that has it."""
    near, far = put(pair.near, "abc"), put(pair.far, "abde")

    result = cli("diff", "node-a", "node-b", *pair.named, "--blocks", "-o", output)

    wanted = {("node-a", near[2]), ("node-b", far[2]), ("node-b", far[3])}
    assert result.code == 6
    if output == "table":
        rows = [row.split() for row in result.text.splitlines()[1:]]
        assert {(row[0], row[-1]) for row in rows} == wanted
    else:
        text = result.text
        records = json.loads(text) if output == "json" else map(json.loads, text.splitlines())
        assert {(r["only_on"], r["block_hash"]) for r in records} == wanted


@pytest.mark.slow
def test_many_blocks_are_compared_whole(cli: Any, pair: Pair, put: Put) -> None:
    """Over many pages and parts, none is lost."""
    letters = "".join(chr(33 + number % 90) for number in range(7000))
    put(pair.near, letters)
    put(pair.far, letters[:6000] + "~" * 500)

    result = cli("diff", "node-a", "node-b", *pair.named, "-o", "json")

    assert counts(result) == [("x", "", 1000, 500, 6000)]


def test_a_name_with_two_descriptions_is_noted(cli: Any, pair: Pair, put: Put) -> None:
    """No block can be equal then, which its name would hide."""
    put(pair.near, "a")
    half = ("put", "-", "-n", "x", "--tier", "cpu0", "--block-bytes", SIZE // 2)
    assert cli(*half, "-e", pair.far.endpoint, stdin=b"a" * SIZE).code == 0

    result = cli("diff", "node-a", "node-b", *pair.named, "-o", "json")

    assert sorted(counts(result)) == [("x", "", 0, 2, 0), ("x", "", 1, 0, 0)]
    assert "note: namespace x is described differently on both" in result.err


def test_what_is_not_there_is_told(cli: Any, pair: Pair, put: Put, dead: str) -> None:
    """A node, a namespace, a tier or an answer; nothing is compared then."""
    put(pair.near, "a")
    here = ("diff", "node-a", "node-b", *pair.named)

    unknown = cli("diff", "node-a", "node-c", *pair.named)
    namespace = cli(*here, "-n", "nope")
    tier = cli(*here, "--tier", "gpu0")
    gone = cli("diff", pair.near.endpoint, dead, "-o", "json")
    silent = cli("diff", "node-a", "node-b", "-e", dead)

    assert (unknown.code, "no endpoint is of node 'node-c'; there are node-a" in unknown.err) == (
        3,
        True,
    )
    assert (namespace.code, "'nope' is registered at neither" in namespace.err) == (3, True)
    assert (tier.code, "gpu0" in tier.err) == (3, True)
    assert (gone.code, gone.out, dead in gone.err) == (4, b"", True)
    assert (silent.code, silent.err.count("\n")) == (4, 1)
