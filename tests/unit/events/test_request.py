"""A request that asks for what cannot be is refused, and says why."""

from typing import Any

import grpc
import pytest

from kvtier.server.events.filter import EventFilter
from kvtier.server.events.request import check_request
from kvtier.server.events.source import TierInfo
from kvtier.v1.block_pb2 import Position
from kvtier.v1.event_service_pb2 import EventView, NodePosition, WatchEventsRequest
from kvtier.wire.errors import KvtierError

from .fakes import CPU, GPU, READY, FakeNode, space_of

_INVALID, _NOT_FOUND = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND


def _node() -> FakeNode:
    return FakeNode(TierInfo(0, "gpu0", GPU, READY), TierInfo(1, "cpu0", CPU, READY))


def _at(node_id: str, epoch: int = 5, sequence: int = 3) -> NodePosition:
    return NodePosition(node_id=node_id, position=Position(epoch=epoch, sequence=sequence))


@pytest.mark.parametrize(
    ("request_fields", "code", "says"),
    [
        ({"positions": [_at("node-a"), _at("node-a", sequence=4)]}, _INVALID, "more than one"),
        ({"positions": [_at("other"), _at("other")]}, _INVALID, "'other' has more than one"),
        ({"positions": [_at("")]}, _INVALID, "node_id"),
        ({"positions": [_at("node-a", epoch=0)]}, _INVALID, "epoch 0"),
        ({"positions": [_at("x" * 1_000_000)] * 2}, _INVALID, "1000000 characters"),
        ({"tiers": ["cpu0", "cpu9"]}, _NOT_FOUND, "'cpu9' is not on node node-a"),
        ({"tiers": [""]}, _NOT_FOUND, "gpu0, cpu0"),
        ({"tiers": ["cpu0\0"]}, _NOT_FOUND, r"'cpu0\x00'"),
        ({"media": [0]}, _INVALID, "medium 0"),
        ({"media": [CPU, 77]}, _INVALID, "medium 77"),
        ({"media": [-1]}, _INVALID, "medium -1"),
        ({"namespaces": [b""]}, _INVALID, "has 0 bytes"),
        ({"namespaces": [space_of(1), b"x" * 33]}, _INVALID, "has 33 bytes"),
        ({"view": 3}, _INVALID, "view 3"),
        ({"view": -1}, _INVALID, "view -1"),
    ],
)
def test_a_malformed_request_is_refused(
    request_fields: dict[str, Any], code: grpc.StatusCode, says: str
) -> None:
    """Every malformed or unknown value is answered with its code and named in the message."""
    request = WatchEventsRequest(**request_fields)

    with pytest.raises(KvtierError) as refused:
        check_request(request, _node())

    assert refused.value.code == code
    assert refused.value.reason in {"BAD_REQUEST", "TIER_UNKNOWN"}
    assert says in refused.value.message
    assert len(refused.value.message) < 1000


def test_an_empty_request_asks_for_everything_from_a_snapshot_on() -> None:
    """Nothing named means every tier, medium and namespace, without token ids."""
    watch = check_request(WatchEventsRequest(), _node())

    assert watch.position is None
    assert watch.wanted == EventFilter()
    assert not watch.wanted.selective


def test_a_request_is_turned_into_a_position_and_a_filter() -> None:
    """Tiers become places on the node; a namespace need not be registered yet."""
    request = WatchEventsRequest(
        positions=[_at("node-b", sequence=9), _at("node-a")],
        tiers=["cpu0", "cpu0"],
        media=[CPU],
        namespaces=[space_of(77)],
        view=EventView.EVENT_VIEW_FULL,
    )

    watch = check_request(request, _node())

    assert watch.position == Position(epoch=5, sequence=3)
    assert watch.wanted == EventFilter(
        frozenset({1}), frozenset({CPU}), frozenset({space_of(77)}), full=True
    )


@pytest.mark.parametrize("positions", [[_at("node-b")], [NodePosition(node_id="node-a")]])
def test_other_nodes_positions_and_empty_ones_ask_for_a_snapshot(
    positions: list[NodePosition],
) -> None:
    """A follower of many nodes may send all its positions to each, also those that are none."""
    watch = check_request(WatchEventsRequest(positions=positions), _node())

    assert watch.position is None
