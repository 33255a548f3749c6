"""Blocks by hand: put, look up, list, load, delete, clear."""

import json
from pathlib import Path
from typing import Any

import pytest

SIZE = 64
DATA = bytes(range(256)) * 2


@pytest.fixture(name="ask")
def _ask(cli: Any, node: Any) -> Any:
    """Runs a command against the node and returns its records."""

    def ask(*arguments: object, stdin: bytes = b"") -> Any:
        result = cli(*arguments, "-e", node.endpoint, "-o", "json", stdin=stdin)
        assert result.code == 0, result.err
        return json.loads(result.out)

    return ask


@pytest.fixture(name="chain")
def _chain(ask: Any) -> list[str]:
    """The hashes of a chain of eight blocks in the host tier."""
    records = ask("put", "-", "-n", "files", "--block-bytes", SIZE, "--tier", "cpu0", stdin=DATA)
    return [record["block_hash"] for record in records]


def test_a_file_goes_in_and_comes_out_byte_exact(
    ask: Any, cli: Any, node: Any, tmp_path: Path
) -> None:
    """What was put is what load brings, into a file and to stdout."""
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(DATA)

    stored = ask("put", source, "-n", "files", "--block-bytes", SIZE)
    hashes = [record["block_hash"] for record in stored]
    loaded = ask("load", *hashes, "-n", "files", "--to", target)
    piped = cli(
        "load", "--file", "-", "-n", "files", "-e", node.endpoint, stdin="\n".join(hashes).encode()
    )

    assert [record["result"] for record in stored] == ["WRITE_RESULT_STORED"] * 8
    assert [record["tier"] for record in loaded] == ["gpu0"] * 8
    assert target.read_bytes() == piped.out == DATA


def test_putting_again_stores_nothing(ask: Any, chain: list[str]) -> None:
    """The same content has the same hashes, and the tier has it already."""
    again = ask("put", "-", "-n", "files", "--tier", "cpu0", stdin=DATA)

    assert [record["block_hash"] for record in again] == chain
    assert {record["result"] for record in again} == {"STORE_OUTCOME_PRESENT"}


def test_what_a_tier_defers_is_put_again(cli: Any, start_node: Any) -> None:
    """A tier that stores what is offered twice says so at first, and stores it then."""
    tier = {"name": "cpu0", "medium": "cpu", "capacity": 1024, "store_threshold": 2}
    node = start_node({"node_id": "node-twice", "drain_timeout": 0, "tiers": [tier]})
    put = ("put", "-", "-n", "files", "--block-bytes", SIZE, "-e", node.endpoint)

    first, second = cli(*put, stdin=DATA), cli(*put, stdin=DATA)

    assert (first.code, second.code) == (1, 0)
    assert first.text.count("deferred") == 8
    assert "8 of 8 blocks were not stored" in first.err
    assert "put them again" in first.err
    assert second.text.count("stored") == 8


def test_a_lookup_tells_the_prefix_by_tier(ask: Any, chain: list[str]) -> None:
    """The prefix ends at the first block that is missing; --blocks sees past it."""
    broken = [*chain[:3], "00" * 32, *chain[3:]]

    (found,) = ask("lookup", *broken, "-n", "files")
    blocks = ask("lookup", *broken, "-n", "files", "--blocks")

    assert found["chain_length"] == 9
    assert found["union_prefix_length"] == 3
    assert found["prefix_lengths"] == {"gpu0": 0, "cpu0": 3}
    assert [b["result"].removeprefix("LOOKUP_RESULT_") for b in blocks] == [
        *["HIT"] * 3,
        "MISS",
        *["HIT"] * 5,
    ]
    assert blocks[0]["tiers"] == ["cpu0"]


def test_a_listing_shows_each_copy_and_can_be_narrowed(ask: Any, chain: list[str]) -> None:
    """Filters by tier and namespace, and the limit, hold; positions follow the chain."""
    everything = ask("get", "blocks")
    gpu = ask("get", "blocks", "--tier", "gpu0")
    limited = ask("get", "blocks", "-n", "files", "--limit", 3)

    positions = {record["block_hash"]: record["start_position"] for record in everything}
    assert positions == {block_hash: 16 * place for place, block_hash in enumerate(chain)}
    assert {record["size_bytes"] for record in everything} == {SIZE}
    assert gpu == []
    assert len(limited) == 3


def test_a_block_is_described_with_all_its_copies(ask: Any, chain: list[str]) -> None:
    """Each tier that has the block is told, and its parent."""
    ask("put", "-", "-n", "files", "--tier", "gpu0", stdin=DATA[: 2 * SIZE])

    told = ask("describe", "block", chain[1], "-n", "files")

    assert [(copy["node_id"], copy["tier"]) for copy in told["copies"]] == [
        ("node-a", "gpu0"),
        ("node-a", "cpu0"),
    ]
    assert {copy["parent_block_hash"] for copy in told["copies"]} == {chain[0]}
    assert told["leases"] == []


def test_a_chain_can_be_continued(ask: Any, chain: list[str]) -> None:
    """--parent and --start-position put more blocks behind a chain."""
    (more,) = ask(
        "put", "-", "-n", "files", "--tier", "cpu0", "--parent", chain[-1],
        "--start-position", 8 * 16, "--hash", "cd" * 32, stdin=b"x" * SIZE,
    )  # fmt: skip

    (found,) = ask("lookup", *chain, more["block_hash"], "-n", "files")

    assert more["block_hash"] == "cd" * 32
    assert found["union_prefix_length"] == 9


def test_deleted_blocks_are_gone_and_the_rest_stay(
    ask: Any, cli: Any, node: Any, chain: list[str]
) -> None:
    """Each block's result is told for each tier; deleting twice finds nothing."""
    arguments = ("delete", *chain[6:], "-n", "files", "--yes")

    first = ask(*arguments, "--tier", "cpu0")
    again = cli(*arguments, "-e", node.endpoint)
    left = ask("get", "blocks")

    assert [record["result"] for record in first] == ["DELETE_RESULT_DELETED"] * 2
    assert again.code == 3
    assert {record["block_hash"] for record in left} == set(chain[:6])


def test_a_clear_empties_one_tier(ask: Any, chain: list[str]) -> None:
    """Only the named tier is cleared, and the number of blocks is told."""
    ask("put", "-", "-n", "files", "--tier", "gpu0", stdin=DATA)

    told = ask("clear", "--tier", "cpu0", "--yes")
    left = ask("get", "blocks")

    assert told["removed_blocks"] == len(chain)
    assert {record["tier"] for record in left} == {"gpu0"}


def test_a_missing_block_leaves_the_target_untouched(
    cli: Any, node: Any, chain: list[str], tmp_path: Path
) -> None:
    """Load writes all or nothing."""
    target = tmp_path / "out"

    result = cli("load", chain[0], "00" * 32, "-n", "files", "--to", target, "-e", node.endpoint)

    assert result.code == 3
    assert not target.exists()


@pytest.mark.parametrize(
    ("arguments", "data", "why"),
    [
        (["--block-bytes", SIZE], b"x" * (SIZE + 1), "no multiple"),
        (["--block-bytes", SIZE], b"", "no multiple"),
        (["--block-bytes", SIZE, "--hash", "aa" * 32], DATA, "1 hashes are given for 8 blocks"),
        (["--block-bytes", SIZE, "--group", 1], DATA, "group 1 does not exist"),
        (["--block-bytes", SIZE, "--parent", "aa" * 32], DATA, "start_position"),
    ],
)
def test_a_put_that_makes_no_sense_stores_nothing(
    cli: Any, ask: Any, node: Any, *, arguments: list[object], data: bytes, why: str
) -> None:
    """Wrong sizes, hashes and positions are wrong use, told with the value."""
    result = cli("put", "-", "-n", "files", *arguments, "-e", node.endpoint, stdin=data)

    assert result.code == 2, result.err
    assert why in result.err
    assert ask("get", "blocks") == []


def test_a_reader_that_has_enough_ends_a_listing_quietly(
    cli: Any, start_cli: Any, node: Any
) -> None:
    """`kvtier get blocks | head -1` gets its line at once and leaves no trace of a broken pipe."""
    data = b"".join(n.to_bytes(8, "big") for n in range(16_000))
    stored = cli(
        "put", "-", "-n", "many", "--block-bytes", 8, "--tier", "cpu0", "-e", node.endpoint,
        stdin=data,
    )  # fmt: skip
    assert stored.code == 0, stored.err

    process = start_cli("get", "blocks", "-o", "jsonl", "-e", node.endpoint)
    first = process.stdout.readline()
    process.stdout.close()
    err = process.stderr.read()

    assert json.loads(first)["namespace_name"] == "many"
    assert err == b""
    assert process.wait() == 141


def test_several_nodes_are_asked_as_one(
    cli: Any, node: Any, start_node: Any, chain: list[str]
) -> None:
    """Listings, lookups and descriptions tell each node's copies, and a dead node's absence."""
    tier = {"name": "cpu0", "medium": "cpu", "capacity": 4096}
    other = start_node({"node_id": "node-b", "drain_timeout": 0, "tiers": [tier]})
    cli(
        "put", "-", "-n", "files", "--block-bytes", SIZE, "-e", other.endpoint,
        stdin=DATA[: 3 * SIZE],
    )  # fmt: skip
    both = ("-e", node.endpoint, "-e", other.endpoint, "-o", "json")

    listed = json.loads(cli("get", "blocks", *both).out)
    found = json.loads(cli("lookup", *chain, "-n", "files", *both).out)
    told = json.loads(cli("describe", "block", chain[0], "-n", "files", *both).out)
    alone = json.loads(cli("describe", "block", chain[7], "-n", "files", *both).out)
    partly = cli("get", "tiers", *both, "-e", "127.0.0.1:1", "--timeout", 1)

    assert [record["node_id"] for record in listed] == ["node-a"] * 8 + ["node-b"] * 3
    assert [(r["node_id"], r["union_prefix_length"]) for r in found] == [
        ("node-a", 8),
        ("node-b", 3),
    ]
    assert [(copy["node_id"], copy["tier"]) for copy in told["copies"]] == [
        ("node-a", "cpu0"),
        ("node-b", "cpu0"),
    ]
    assert [copy["node_id"] for copy in alone["copies"]] == ["node-a"]
    assert [tier["node_id"] for tier in json.loads(partly.out)] == ["node-a", "node-a", "node-b"]
    assert partly.code == 4
    assert partly.err.startswith("error: 127.0.0.1:1: cannot be reached")


def test_nodes_are_ranked_by_what_they_hold(
    cli: Any, node: Any, start_node: Any, chain: list[str]
) -> None:
    """By events alone, the best first; a node that is dead is told by its error."""
    tier = {"name": "gpu0", "medium": "gpu", "capacity": 4096, "device": "emulated"}
    fast = start_node({"node_id": "node-c", "drain_timeout": 0, "tiers": [tier]})
    empty = start_node({"node_id": "node-d", "drain_timeout": 0, "tiers": [tier]})
    cli(
        "put", "-", "-n", "files", "--block-bytes", SIZE, "-e", fast.endpoint,
        stdin=DATA[: 5 * SIZE],
    )  # fmt: skip
    endpoints = f"{empty.endpoint},{node.endpoint},{fast.endpoint}"
    asked = ("lookup", *chain, "-n", "files", "--all-nodes", "-e", endpoints)

    ranked = cli(*asked, "-o", "json")
    weighed = cli(*asked, "--weight", "cpu=1", "-o", "json")
    partly = cli(*asked, "-e", "127.0.0.1:1", "--timeout", 2, "--no-headers")

    assert [
        (r["node_id"], r["quality"], r["union_prefix_length"], r["score"], r["prefix_lengths"])
        for r in json.loads(ranked.out)
    ] == [
        ("node-c", "EXACT", 5, 5.0, {"gpu0": 5}),
        ("node-a", "EXACT", 8, 4.0, {"gpu0": 0, "cpu0": 8}),
        ("node-d", "EXACT", 0, 0.0, {"gpu0": 0}),
    ]
    assert [r["node_id"] for r in json.loads(weighed.out)] == ["node-a", "node-c", "node-d"]
    assert [line.split(maxsplit=5) for line in partly.text.splitlines()] == [
        ["node-c", "exact", "8", "5", "5", "gpu0 5"],
        ["node-a", "exact", "8", "8", "4", "gpu0 0, cpu0 8"],
        ["node-d", "exact", "8", "0", "0", "gpu0 0"],
    ]
    assert partly.code == 4
    assert partly.err.startswith("error: 127.0.0.1:1: cannot be reached")


def test_a_namespace_with_blocks_of_another_size_is_not_mixed_up(
    cli: Any, node: Any, chain: list[str]
) -> None:
    """--block-bytes that differs from the registered size is wrong use, told with both."""
    result = cli("put", "-", "-n", "files", "--block-bytes", 32, "-e", node.endpoint, stdin=DATA)

    assert result.code == 2
    assert "blocks of 64 bytes" in result.err
    assert "says 32" in result.err
