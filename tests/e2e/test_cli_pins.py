"""Pins and namespaces by hand: pin, unpin, delete-namespace, and what get tiers shows of them."""

import json
from typing import Any

import pytest

DATA = bytes(range(256))
SIZE = 64


@pytest.fixture(name="chain")
def _chain(cli: Any, node: Any) -> list[str]:
    """The hashes of a chain of four blocks in the host tier, of a namespace called pinned."""
    result = cli(
        "put", "-", "-n", "pinned", "--block-bytes", SIZE, "--tier", "cpu0", "-o", "json",
        "-e", node.endpoint, stdin=DATA,
    )  # fmt: skip
    assert result.code == 0, result.err
    return [record["block_hash"] for record in json.loads(result.out)]


@pytest.fixture(name="ask")
def _ask(cli: Any, node: Any) -> Any:
    """Runs a command against the node and returns its end and its records."""

    def ask(*arguments: object, code: int = 0) -> Any:
        result = cli(*arguments, "-e", node.endpoint, "-o", "json")
        assert result.code == code, result.err
        return json.loads(result.out) if result.out else result.err

    return ask


def pinned_blocks(ask: Any) -> int:
    (count,) = [tier["pinned_blocks"] for tier in ask("get", "tiers") if tier["name"] == "cpu0"]
    return int(count)


def test_a_pin_is_taken_and_given_back(ask: Any, chain: list[str]) -> None:
    """The pin that is shown is what unpin takes; the second time it is not there any more."""
    told = ask("pin", *chain[:2], "-n", "pinned", "--tier", "cpu0", "--ttl", 60)
    (pin,) = {record["pin"] for record in told}
    during = pinned_blocks(ask)

    taken_back = ask("unpin", pin)
    after = pinned_blocks(ask)
    unknown = ask("unpin", f"{'00' * 16}:1", code=3)

    assert [record["result"] for record in told] == ["LOOKUP_RESULT_HIT"] * 2
    assert (during, after) == (2, 0)
    assert taken_back["pins"] == [{"pin": pin, "result": "LEASE_RESULT_OK"}]
    assert unknown["pins"][0]["result"] == "LEASE_RESULT_NOT_FOUND"


def test_all_pins_of_an_owner_are_taken_back(
    ask: Any, cli: Any, node: Any, chain: list[str]
) -> None:
    """And those of others stay."""
    for owner in ("mine", "mine", "others"):
        ask("pin", chain[0], "-n", "pinned", "--tier", "cpu0", "--owner", owner)

    result = cli("unpin", "--owner", "mine", "-e", node.endpoint)

    assert result.text == "mine: 2 pins taken back\n"
    assert pinned_blocks(ask) == 1
    assert ask("unpin", "--owner", "others")["owner_pins"] == 1


def test_what_is_not_there_is_not_pinned(ask: Any, cli: Any, node: Any, chain: list[str]) -> None:
    """It is told with exit code 3; where nothing could be pinned no pin is left."""
    place = ("-n", "pinned", "--tier", "cpu0")
    some = ask("pin", chain[0], "ab" * 32, *place, code=3)
    ask("unpin", some[0]["pin"])
    none = cli("pin", "ab" * 32, *place, "-e", node.endpoint)
    (leases,) = [each["leases"] for each in ask("get", "nodes")]

    assert [record["result"] for record in some] == ["LOOKUP_RESULT_HIT", "LOOKUP_RESULT_MISS"]
    assert some[1]["pin"] == ""
    assert none.code == 3
    assert none.err.startswith(f"error: {node.endpoint}: 1 blocks cannot be read in tier cpu0")
    assert leases == 0


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["unpin"], "no pin given"),
        (["unpin", "nonsense"], "'nonsense' is no pin"),
        (["unpin", "zz:1"], "'zz:1' is no pin"),
        (["unpin", "ab:1"], "lease id has 1 bytes"),
        (["pin", "ab" * 32, "-n", "pinned"], "--tier"),
        (["pin", "ab" * 32, "-n", "pinned", "--tier", "cpu0", "--ttl", "1e9"], "at most 604800 s"),
        (["delete-namespace", "pinned"], "agree with --yes"),
    ],
)
def test_wrong_use_is_told(
    cli: Any, node: Any, chain: list[str], arguments: list[str], why: str
) -> None:
    """One line says what is wrong and what to do, with exit code 2, and nothing is done."""
    del chain
    result = cli(*arguments, "-e", node.endpoint)

    assert (result.code, result.text) == (2, "")
    assert why in result.err
    assert result.err.count("\n") == 1


def test_a_namespace_is_deleted_by_name(ask: Any, cli: Any, node: Any, chain: list[str]) -> None:
    """Not while blocks are pinned; with --force it goes, and is not found any more."""
    ask("pin", chain[0], "-n", "pinned", "--tier", "cpu0", "--owner", "test")

    refused = cli("delete-namespace", "pinned", "--yes", "-e", node.endpoint)
    left = {each["name"] for each in ask("get", "namespaces")}
    done = cli("delete-namespace", "pinned", "--yes", "--force", "-e", node.endpoint)
    again = cli("delete-namespace", "pinned", "--yes", "-e", node.endpoint)
    ask("unpin", "--owner", "test")

    assert refused.code == 1
    assert "BLOCKS_LEASED" in refused.err
    assert "pinned" in left
    assert (done.code, done.text) == (0, "pinned: deleted, 4 blocks removed\n")
    assert again.code == 3
    assert "NAMESPACE_UNKNOWN" in again.err
    assert ask("get", "blocks") == []


def test_a_wide_listing_shows_pins_and_the_oldest_lease(
    ask: Any, cli: Any, node: Any, chain: list[str]
) -> None:
    """A plain one has neither column."""
    ask("pin", chain[0], "-n", "pinned", "--tier", "cpu0", "--owner", "test")

    plain = cli("get", "tiers", "-e", node.endpoint).text.splitlines()
    wide = cli("get", "tiers", "-o", "wide", "-e", node.endpoint).text.splitlines()
    ask("unpin", "--owner", "test")

    assert "PINNED" not in plain[0]
    for title in ("PINNED", "OLDEST LEASE", "ON EVICT", "WRITE THROUGH"):
        assert title in wide[0]
    place = wide[0].index("PINNED") + len("PINNED")
    (cpu,) = [line for line in wide if " cpu0 " in line]
    assert cpu[:place].split()[-1] == "1"
