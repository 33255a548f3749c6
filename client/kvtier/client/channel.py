"""How a client connects: the options of its channels, in one place."""

import json
import re

import grpc
import grpc.aio

from kvtier.client.errors import InvalidArgumentError
from kvtier.wire.errors import Reason, quote
from kvtier.wire.identity import Identity

MAX_MESSAGE_BYTES = 64 << 20

_MAX_PORT = 65535
_SCHEMES = ("unix:", "dns:", "ipv4:", "ipv6:")
# Repeating these changes nothing: they only read, or the caller's lease id makes the first outcome
# the answer.
_REPEATABLE = (
    "GetNode",
    "ListTiers",
    "RegisterNamespace",
    "ListNamespaces",
    "LookupBlocks",
    "PrepareStore",
    "CompleteStore",
    "PrepareLoad",
    "CompleteLoad",
    "RenewLeases",
    "ReleaseLeases",
    "PinBlocks",
    "UnpinBlocks",
    "ListBlocks",
    "DescribeBlock",
)
_SERVICE_CONFIG = {
    "methodConfig": [
        {
            "name": [{"service": "kvtier.v1.TierService", "method": m} for m in _REPEATABLE],
            "retryPolicy": {
                "maxAttempts": 4,
                "initialBackoff": "0.05s",
                "maxBackoff": "0.5s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE"],
            },
        }
    ]
}


def channel_options() -> list[tuple[str, str | int]]:
    """Return the options of a channel to a node.

    Each channel has a connection of its own: so bulk delays neither events nor lookups, and a new
    channel never inherits a connection that went dead.

    Keepalive fits what a node permits: a ping each 30 s while a call is open, none without. A lost
    connection is tried again within 2 s at most, since gRPC's own two minutes would leave a
    restarted node unseen, and its name is looked up again as soon, rather than each 30 s. Calls
    that may be repeated are tried up to four times on UNAVAILABLE, with jittered pauses and within
    their deadline.
    """
    return [
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.keepalive_permit_without_calls", 0),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 5_000),
        ("grpc.max_reconnect_backoff_ms", 2_000),
        ("grpc.dns_min_time_between_resolutions_ms", 2_000),
        ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_retries", 1),
        ("grpc.service_config", json.dumps(_SERVICE_CONFIG)),
    ]


def open_channel(endpoint: str, identity: Identity | None) -> grpc.aio.Channel:
    """Return a channel to a node; it connects when the first call is made.

    Args:
        endpoint: The node's address.
        identity: TLS and who the caller is; None for plaintext and nobody.
    """
    options = channel_options()
    if identity is None:
        return grpc.aio.insecure_channel(endpoint, options=options)
    return identity.open(endpoint, options)


def check_endpoint(endpoint: object) -> str:
    """Return the endpoint if it is one.

    Raises:
        InvalidArgumentError: When it is neither `host:port` nor a gRPC target such as `unix:PATH`.
    """
    if isinstance(endpoint, str):
        if endpoint.startswith(_SCHEMES) and endpoint not in _SCHEMES:
            return endpoint
        host_and_port = re.fullmatch(r"[^\s/]+:(\d{1,5})", endpoint)
        if host_and_port and 0 < int(host_and_port[1]) <= _MAX_PORT:
            return endpoint
    raise InvalidArgumentError(
        grpc.StatusCode.INVALID_ARGUMENT,
        Reason.BAD_REQUEST,
        f"endpoint must be host:port, such as 127.0.0.1:7600; got {quote(endpoint)}",
    )
