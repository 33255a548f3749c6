"""gRPC's settings of a node: of what it serves, and of what it asks of peers."""

from typing import Protocol

from kvtier.server.config import LimitsConfig

Option = tuple[str, int]


class RequestLimits(Protocol):
    """What limits the requests that a server takes."""

    @property
    def message_bytes(self) -> int:
        """Bytes of one request message."""
        ...

    @property
    def metadata_bytes(self) -> int:
        """Bytes of one request's metadata."""
        ...


def server_options(limits: RequestLimits) -> list[Option]:
    """Return the channel options of a server.

    What is received is bounded; what is sent bounds itself. Two servers never share a port, and a
    client may ping as often as ours does (every 30 s) without being sent away:
    `grpc.http2.min_ping_interval_without_data_ms` is the name that gRPC heeds.

    Once 1,000 calls wait to be taken up, gRPC by default cancels some at random, also those of a
    client that has only one. Each connection brings 1,024 at most.
    """
    return [
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", limits.message_bytes),
        ("grpc.max_send_message_length", -1),
        # Between the two gRPC would refuse at random.
        ("grpc.max_metadata_size", limits.metadata_bytes),
        ("grpc.absolute_max_metadata_size", limits.metadata_bytes),
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.max_concurrent_streams", 1024),
        ("grpc.server.max_pending_requests", 1 << 15),
        ("grpc.server.max_pending_requests_hard_limit", 1 << 15),
    ]


def peer_options(limits: LimitsConfig) -> list[Option]:
    """Return the channel options of a connection to another node.

    It is tried again soon after it was lost, pings no more often than a node permits, and is never
    shared, so that a new channel is a new connection. It goes to the peer itself, whatever proxy
    the environment names: a node connects to nobody but its peers.
    """
    return [
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.keepalive_permit_without_calls", 0),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 2_000),
        ("grpc.max_receive_message_length", limits.message_bytes),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_http_proxy", 0),
        ("grpc.enable_retries", 0),
    ]
