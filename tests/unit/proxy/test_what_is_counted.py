"""What a proxy counts of its nodes and of what their followers are told."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import pytest

from kvtier.client import BlockIndex
from kvtier.proxy.catching_up import CatchUp
from kvtier.proxy.relay import Relay
from kvtier.proxy.standing import Standing
from kvtier.proxy.told import Told
from kvtier.proxy.wishes import Wishes
from kvtier.server.events.bell import Bell
from kvtier.server.metrics.common import Facts, collect_facts
from kvtier.v1.block_pb2 import Position
from kvtier.v1.event_service_pb2 import (
    Progress,
    ResetReason,
    WatchEventsRequest,
    WatchEventsResponse,
)
from tests.unit.client.messages import Script, stored

from .test_catching_up import Scripted, naming, ring

if TYPE_CHECKING:
    from prometheus_client.core import Metric

EPOCH = 7


def heartbeat(through: int, head: int) -> WatchEventsResponse:
    """A node's word that its log has come to `head`, of which `through` was sent."""
    return WatchEventsResponse(
        node_id="node", epoch=EPOCH, after=0, through=through, progress=Progress(head=head)
    )


@pytest.mark.parametrize(("head", "lag"), [(0, 0), (5, 5)])
def test_the_lag_is_what_the_last_heartbeat_told(head: int, lag: int) -> None:
    """The batches that the node has and the proxy was not sent yet."""
    mine = ring("node", Position(epoch=EPOCH, sequence=0))

    mine.take(heartbeat(through=0, head=head), "progress")

    assert mine.lag == lag


async def test_a_reset_that_the_node_itself_sends_is_counted() -> None:
    """It is handed on to one follower, and counted beside those that the proxy makes."""
    told, node = Told(), Script("node")
    relay = Relay("node", BlockIndex(), ring, Bell(), told)

    async def send(_message: bytes) -> None:
        assert not told.catch_ups

    messages: Sequence[WatchEventsResponse] = [*node.start(stored(1)), naming("other")]
    await CatchUp(relay, Standing(None), send).run(
        Scripted(messages), Wishes.of(WatchEventsRequest())
    )

    assert dict(told.resets) == {messages[0].reset.reason: 1}


class Sample(NamedTuple):
    labels: dict[str, str]
    value: float


def read(facts: Facts) -> Callable[[str], list[Sample]]:
    """Read what a server knows of itself; return the samples of a name."""
    metrics: dict[str, Metric] = {m.name: m for m in (each() for each in collect_facts(facts))}
    return lambda name: [Sample(s.labels, s.value) for s in metrics[name].samples]


def facts(**more: Callable[[], dict[str, float]]) -> Facts:
    nothing = dict.fromkeys(("expiries", "auth_failures", "limited_calls"), dict)
    return Facts(
        node_id="node",
        ready=lambda: True,
        draining=lambda: False,
        followers=lambda: 2,
        resets=lambda: {ResetReason.RESET_REASON_LAGGED: 3, 99: 1},
        **{**nothing, **more},
    )


def test_what_others_count_of_a_server_is_told_by_their_words() -> None:
    """A reset for no known reason makes no label."""
    told = read(
        facts(
            expiries=lambda: {"cert": 1.9e9},
            auth_failures=lambda: {"bad_token": 4},
            limited_calls=lambda: {"calls": 5},
        )
    )

    assert told("kvtier_certificate_expiry_timestamp_seconds") == [Sample({"file": "cert"}, 1.9e9)]
    assert told("kvtier_limited_calls") == [Sample({"limit": "calls"}, 5)]
    failures = {each.labels["reason"]: each.value for each in told("kvtier_auth_failures")}
    assert failures == {"bad_token": 4}
    resets = {each.labels["reason"]: each.value for each in told("kvtier_resets")}
    assert resets["lagged"] == 3
    assert sum(resets.values()) == 3


def test_a_server_without_certificates_and_limits_tells_of_none() -> None:
    """There is no series that means nothing."""
    told = read(facts())

    assert told("kvtier_certificate_expiry_timestamp_seconds") == []
    assert told("kvtier_limited_calls") == []
