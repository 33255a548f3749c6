"""What a proxy is by its configuration: what it says of itself, and whom it looks out for."""

import random
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from importlib.metadata import version

from google.protobuf.timestamp_pb2 import Timestamp

from kvtier.client import NodeClient
from kvtier.client.proxy.membership import Endpoints, dns, watched_file
from kvtier.proxy.config import ProxyConfig
from kvtier.server.config.addresses import split_endpoint
from kvtier.v1.tier_pb2 import Limits, Node
from kvtier.wire.credentials import Credentials


def identity_of(config: ProxyConfig) -> Node:
    """Return how a proxy that starts now describes itself; it has no log of its own."""
    started = Timestamp()
    started.FromNanoseconds(time.time_ns())
    return Node(
        node_id=config.node_id,
        incarnation=random.SystemRandom().getrandbits(64) or 1,
        version=version("kvtier"),
        start_time=started,
        limits=Limits(
            message_bytes=config.limits.message_bytes,
            hashes=config.limits.hashes,
            followers=config.limits.followers,
        ),
    )


def connect_of(config: ProxyConfig, credentials: Credentials | None) -> Callable[[str], NodeClient]:
    """Return what makes the client of a secondary that joins.

    Nodes behind a name are called by their addresses, which no certificate has: theirs have the
    name.
    """
    if credentials is not None and config.secondaries_dns:
        credentials = credentials.named(split_endpoint(config.secondaries_dns)[0])
    return partial(NodeClient, credentials=credentials)


def membership_of(config: ProxyConfig) -> AsyncIterator[Endpoints] | None:
    """Return what tells who the secondaries are; None when the configuration lists them."""
    if config.secondaries_dns:
        name, port = split_endpoint(config.secondaries_dns)
        return dns(name, port)
    return watched_file(config.secondaries_file) if config.secondaries_file else None
