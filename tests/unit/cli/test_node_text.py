"""A node as a person reads it."""

from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from kvtier.cli.node_text import node_lines
from kvtier.cli.output.messages import to_record
from kvtier.v1.block_pb2 import Medium, Position
from kvtier.v1.event_service_pb2 import TierState
from kvtier.v1.tier_pb2 import LeaseKind, Limits, Node, Tier, TierCounters, TierLease

START = Timestamp(seconds=0, nanos=5)


def told(node: Node, *tiers: Tier) -> dict[str, str]:
    """Return what the lines say, by the word that they begin with."""
    record: dict[str, Any] = {"endpoint": "n:1", **to_record(node)}
    record["tiers"] = [to_record(tier) for tier in tiers]
    pairs = (line.strip().partition("  ") for line in node_lines(record))
    return {name: value.strip() for name, _, value in pairs}


def node(**fields: Any) -> Node:
    limits = Limits(followers=8, lease_ttl=Duration(seconds=300), pin_ttl=Duration(seconds=600))
    fields = {"start_time": START, "head": Position(epoch=1), **fields}
    return Node(node_id="n1", limits=limits, **fields)


def test_a_node_tells_where_its_log_is() -> None:
    """As the position that `kvtier watch --since` takes."""
    lines = told(node(head=Position(epoch=255, sequence=7), oldest_sequence=3))

    assert lines["log"] == "at 00000000000000ff:7, can be resumed from 3"


def test_a_proxy_tells_what_it_has_and_nothing_of_what_it_has_not() -> None:
    """It has no log, no leases, and no limits but those of a request."""
    limits = Limits(message_bytes=1 << 20, hashes=100, followers=8)
    lines = told(Node(node_id="p1", start_time=START, limits=limits))

    assert lines["log"].startswith("none")
    assert lines["up"].endswith("since 1970-01-01T00:00:00Z")
    assert lines["request"] == "1 MiB, 100 hashes"
    assert not lines.keys() & {"leases", "lease", "offer", "block", "namespaces"}


def test_a_tier_that_a_proxy_does_not_reach_tells_why() -> None:
    """And no number, since none is known."""
    proxy = Node(node_id="p1", start_time=START, limits=Limits())
    lines = told(proxy, Tier(name="n1/cpu0", state_reason="n1: the node is draining"))

    assert lines["state"] == "unreachable: n1: the node is draining"
    assert not lines.keys() & {"size", "blocks", "since the start"}


def test_a_tier_tells_what_holds_room_and_who_holds_it_longest() -> None:
    """Numbers that are 0 are left out, so that those which are not are seen."""
    lease = TierLease(
        owner="engine",
        kind=LeaseKind.LEASE_KIND_LOAD,
        age=Duration(seconds=120),
        remaining=Duration(seconds=30),
        blocks=4,
    )
    lines = told(
        node(),
        Tier(
            name="cpu0",
            medium=Medium.MEDIUM_CPU,
            state=TierState.TIER_STATE_READY,
            capacity_blocks=16,
            ready_blocks=5,
            leased_blocks=4,
            draining_blocks=1,
            oldest_lease=lease,
            counters=TierCounters(stored=9, copies_failed=2),
        ),
    )

    assert lines["blocks"] == "5 of 16 ready, 4 leased, 1 draining"
    assert lines["oldest lease"] == "load of engine on 4 blocks, 2m old, 30s left"
    assert lines["since the start"] == "9 stored, 2 copies failed"


def test_a_tier_of_files_tells_how_far_it_has_recovered() -> None:
    """Its room is in bytes, so that no number of blocks is named as its whole."""
    lines = told(
        node(),
        Tier(
            name="fs0",
            medium=Medium.MEDIUM_FS,
            state=TierState.TIER_STATE_RECOVERING,
            state_reason="62 %",
            capacity_blocks=16,
            ready_blocks=5,
            recovered_blocks=62,
            recovering_blocks=100,
            counters=TierCounters(),
        ),
    )

    assert lines["state"] == "recovering 62 %"
    assert lines["blocks"] == "5 ready"
    assert lines["recovered"] == "62 of 100 blocks"
    assert lines["since the start"] == "nothing"
