"""How a client connects."""

import json

import pytest

from kvtier.client import InvalidArgumentError, NodeClient
from kvtier.client.channel import channel_options
from kvtier.v1.tier_service_pb2 import (
    DESCRIPTOR,
)

_CHANGING = {"DeleteNamespace", "TouchBlocks", "CopyBlocks", "DeleteBlocks", "ClearTier"}


def test_options_fit_what_a_node_permits() -> None:
    """Pings come each 30 s and only during calls, and a restarted node is noticed within 2 s."""
    options = dict(channel_options())

    assert options["grpc.keepalive_time_ms"] == 30_000
    assert options["grpc.keepalive_timeout_ms"] == 10_000
    assert options["grpc.keepalive_permit_without_calls"] == 0
    assert options["grpc.max_reconnect_backoff_ms"] == 2_000
    assert options["grpc.max_receive_message_length"] == 64 << 20
    assert options["grpc.max_send_message_length"] == 64 << 20


def test_a_channel_shares_its_connection_with_no_other() -> None:
    """Else a channel that is opened in the place of a dead one would get its connection."""
    assert dict(channel_options())["grpc.use_local_subchannel_pool"] == 1


def test_only_calls_that_may_be_repeated_are() -> None:
    """What would count twice is left out of the retry policy, as are streams."""
    config = json.loads(str(dict(channel_options())["grpc.service_config"]))
    (method_config,) = config["methodConfig"]

    names = {entry["method"] for entry in method_config["name"]}

    assert {entry["service"] for entry in method_config["name"]} == {"kvtier.v1.TierService"}
    assert method_config["retryPolicy"]["retryableStatusCodes"] == ["UNAVAILABLE"]
    assert not names & _CHANGING


def test_every_unary_call_is_classified() -> None:
    """A new call has to be listed as repeatable or as changing something."""
    config = json.loads(str(dict(channel_options())["grpc.service_config"]))
    repeated = {entry["method"] for entry in config["methodConfig"][0]["name"]}
    methods = {method.name for method in DESCRIPTOR.services_by_name["TierService"].methods}

    assert repeated | _CHANGING == methods


@pytest.mark.parametrize(
    "endpoint",
    ["127.0.0.1:7600", "node-3.kvtier:7600", "[::1]:7600", "unix:/run/kv.sock", "dns:///n:1"],
)
def test_an_endpoint_is_a_host_and_a_port_or_a_target(endpoint: str) -> None:
    """What gRPC can reach is accepted."""
    assert NodeClient(endpoint).endpoint == endpoint


@pytest.mark.parametrize(
    "endpoint", ["", "localhost", "localhost:", "localhost:0", "localhost:99999", "a b:1", "unix:"]
)
def test_what_is_no_endpoint_is_refused_at_once(endpoint: str) -> None:
    """A forgotten port is told when the client is made, not by a call that hangs."""
    with pytest.raises(InvalidArgumentError, match="endpoint must be host:port"):
        NodeClient(endpoint)


@pytest.mark.parametrize("endpoint", [None, 7600, b"127.0.0.1:7600"])
def test_an_endpoint_of_another_type_is_refused(endpoint: object) -> None:
    """The argument is named, whatever it is."""
    with pytest.raises(InvalidArgumentError, match="endpoint"):
        NodeClient(endpoint)  # type: ignore[arg-type]
