"""Draining a node by hand."""

import json
from typing import Any

import pytest


@pytest.fixture(name="endpoint")
def _endpoint(start_node: Any) -> str:
    """A node of the test's own, which waits for leases for a moment."""
    tiers = [{"name": "cpu0", "medium": "cpu", "capacity": 4096, "slot_bytes": 64}]
    node = start_node({"node_id": "going", "drain_timeout": 0.5, "tiers": tiers})
    return str(node.endpoint)


def test_a_drain_tells_what_was_left(cli: Any, endpoint: str) -> None:
    """The answer is a sentence for people and a record for programs; reads go on, stores do not."""
    cli("put", "-", "-n", "x", "--block-bytes", 64, "-e", endpoint, stdin=bytes(range(64)))

    first = cli("drain", "--yes", "-e", endpoint)
    again = cli("drain", "--yes", "--wait", 5, "-e", endpoint, "-o", "json")
    refused = cli("put", "-", "-n", "x", "-e", endpoint, stdin=bytes(64))
    listed = cli("get", "blocks", "-e", endpoint, "-o", "json")
    nodes = cli("get", "nodes", "-e", endpoint, "-o", "json")

    assert (first.code, first.text) == (0, f"{endpoint}: drained, nothing left\n")
    assert json.loads(again.out) == {
        "endpoint": endpoint,
        "leases": 0,
        "transfers": 0,
        "copies": 0,
        "followers": 0,
        "undeleted_blocks": 0,
    }
    assert refused.code == 4
    assert "DRAINING" in refused.err
    assert len(json.loads(listed.out)) == 1
    assert [node["state"] for node in json.loads(nodes.out)] == ["draining"]
