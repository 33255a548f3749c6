"""Copying blocks by hand, within a node and from another."""

import json
from pathlib import Path
from typing import Any

import pytest

from kvtier.cli.nodes import RunningNode

SIZE = 64
DATA = bytes(range(256)) * 2
ABSENT = "ee" * 32


@pytest.fixture(name="ask")
def _ask(cli: Any, node: RunningNode) -> Any:
    """Runs a command against a node, and returns its records."""

    def ask(*arguments: object, stdin: bytes = b"", at: RunningNode = node) -> Any:
        result = cli(*arguments, "-e", at.endpoint, "-o", "json", stdin=stdin)
        assert result.code == 0, result.err
        return json.loads(result.out)

    return ask


@pytest.fixture(name="chain")
def _chain(ask: Any) -> list[str]:
    """The hashes of a chain of eight blocks in the host tier."""
    records = ask("put", "-", "-n", "files", "--block-bytes", SIZE, "--tier", "cpu0", stdin=DATA)
    return [record["block_hash"] for record in records]


@pytest.fixture(name="puller", scope="module")
def _puller(start_node: Any, server: RunningNode) -> RunningNode:
    """A node that may pull from the other."""
    tier = {"name": "cpu0", "medium": "cpu", "capacity": "1MiB", "slot_bytes": SIZE}
    settings = {"node_id": "puller", "drain_timeout": 0, "tiers": [tier]}
    running: RunningNode = start_node(settings | {"peers": [server.endpoint]})
    return running


WITHIN = ("-n", "files", "--from-tier", "cpu0", "--to-tier", "gpu0")


def test_blocks_are_copied_to_another_tier(ask: Any, chain: list[str]) -> None:
    """Each block's result is told; both tiers have the blocks then."""
    first = ask("copy", *chain, *WITHIN)
    again = ask("copy", *chain, *WITHIN)
    found = ask("lookup", *chain, "-n", "files")

    assert [record["block_hash"] for record in first] == chain
    assert {record["tier"] for record in first} == {"gpu0"}
    assert {record["result"] for record in first} == {"COPY_RESULT_COPIED"}
    assert {record["result"] for record in again} == {"COPY_RESULT_PRESENT"}
    assert found[0]["prefix_lengths"] == {"gpu0": 8, "cpu0": 8}


def test_blocks_are_moved_to_another_tier(ask: Any, chain: list[str]) -> None:
    """With --move the source has them no more."""
    ask("copy", *chain[:3], *WITHIN, "--move")

    (found,) = ask("lookup", *chain[:3], "-n", "files")
    assert found["prefix_lengths"] == {"gpu0": 3, "cpu0": 0}


def test_blocks_come_from_another_node(
    ask: Any, node: RunningNode, puller: RunningNode, chain: list[str], tmp_path: Path
) -> None:
    """What was pulled has the bytes and the place in the chain that it has at the peer."""
    ask("put", "-", "-n", "files", "--block-bytes", SIZE, stdin=b"x" * SIZE, at=puller)
    source = ("-n", "files", "--from-peer", f"{node.endpoint}/cpu0", "--to-tier", "cpu0")

    head = ask("copy", *chain[:4], *source, at=puller)
    tail = ask(
        "copy", *chain[4:], *source, "--parent", chain[3], "--start-position", 64,
        "--adapter-name", "poet", at=puller,
    )  # fmt: skip
    target = tmp_path / "out"
    ask("load", *chain, "-n", "files", "--to", target, at=puller)

    assert {r["result"] for r in head + tail} == {"COPY_RESULT_COPIED"}
    assert target.read_bytes() == DATA
    listed = {r["block_hash"]: r for r in ask("get", "blocks", at=puller)}
    assert [listed[each]["start_position"] for each in chain] == list(range(0, 128, 16))
    assert listed[chain[4]]["parent_block_hash"] == chain[3]
    assert listed[chain[4]]["adapter_name"] == "poet"


def test_a_block_that_is_not_there_is_told(cli: Any, node: RunningNode, chain: list[str]) -> None:
    """The others are copied; the exit code is 3, and the line says how many are missing."""
    result = cli("copy", chain[0], ABSENT, *WITHIN, "-e", node.endpoint)

    lines = [line.split() for line in result.text.splitlines()]
    assert lines == [
        ["TIER", "RESULT", "HASH"],
        ["gpu0", "copied", chain[0]],
        ["gpu0", "miss", ABSENT],
    ]
    assert result.code == 3
    assert "1 of 2 blocks were not copied: 1 miss (MISS)" in result.err


def test_a_copy_without_room_fails(cli: Any, start_node: Any) -> None:
    """A block that finds no room is told, and the exit code is 1."""
    tiers = [
        {"name": "cpu0", "medium": "cpu", "capacity": 0, "slot_bytes": SIZE},
        {"name": "cpu1", "medium": "cpu", "capacity": 4096, "slot_bytes": SIZE},
    ]
    small = start_node({"node_id": "small", "drain_timeout": 0, "tiers": tiers})
    to = ("-e", small.endpoint, "-o", "json")
    put = cli("put", "-", "-n", "f", "--block-bytes", SIZE, "--tier", "cpu1", *to, stdin=b"x" * 64)
    (record,) = json.loads(put.out)

    result = cli(
        "copy", record["block_hash"], "-n", "f", "--from-tier", "cpu1", "--to-tier", "cpu0", *to
    )

    assert [r["result"] for r in json.loads(result.out)] == ["COPY_RESULT_NO_ROOM"]
    assert result.code == 1
    assert "1 no room" in result.err


@pytest.mark.parametrize(
    ("peer", "code", "why"),
    [
        ("127.0.0.1:1/cpu0", 5, "PEER_NOT_ALLOWED"),
        ("{}/tape0", 3, "tape0"),
        ("{}/TAPE", 2, "from_peer.tier"),
    ],
)
def test_a_peer_that_is_not_right_is_told(
    cli: Any, node: RunningNode, puller: RunningNode, *, peer: str, code: int, why: str
) -> None:
    """A peer that is not listed is denied, a tier that it has not is not found."""
    at = ("-e", puller.endpoint)
    cli("put", "-", "-n", "files", "--block-bytes", SIZE, *at, stdin=b"x" * SIZE)
    cli("put", "-", "-n", "files", "--block-bytes", SIZE, "-e", node.endpoint, stdin=b"x" * SIZE)
    source = ("--from-peer", peer.format(node.endpoint), "--to-tier", "cpu0")

    result = cli("copy", ABSENT, "-n", "files", *source, *at)

    assert (result.code, result.out) == (code, b"")
    assert why in result.err


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ([], "--from-tier or --from-peer"),
        (["--from-tier", "cpu0", "--from-peer", "a:1/cpu0"], "--from-tier or --from-peer"),
        (["--from-peer", "a:1/cpu0", "--move"], "within a node"),
        (["--from-peer", "a:1"], "HOST:PORT/TIER"),
        (["--from-tier", "cpu0", "--parent", ABSENT], "for --from-peer only"),
        (["--from-peer", "a:1/cpu0", "--parent", ABSENT], "go together"),
    ],
)
def test_a_copy_that_makes_no_sense_is_wrong_use(
    cli: Any, node: RunningNode, options: list[str], why: str
) -> None:
    """It is told without asking a node."""
    result = cli("copy", ABSENT, "-n", "files", "--to-tier", "gpu0", *options, "-e", node.endpoint)

    assert result.code == 2
    assert why in result.err
