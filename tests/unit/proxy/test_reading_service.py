"""The service of a proxy: what it says of itself, and what it refuses."""

from typing import Any

import pytest

from kvtier.server.services.rpc import snake_case
from kvtier.v1.tier_pb2 import Limits, Node
from kvtier.v1.tier_service_pb2 import DESCRIPTOR, GetNodeRequest, ListNamespacesRequest
from kvtier.wire.errors import KvtierError, Reason
from tests.unit.client.messages import NAMESPACE, OTHER

from .behind import MOST_HASHES, Behind

METHODS = DESCRIPTOR.services_by_name["TierService"].methods_by_name
READS = {
    "GetNode",
    "ListTiers",
    "ListNamespaces",
    "LookupBlocks",
    "ListBlocks",
    "DescribeBlock",
}


def test_it_tells_its_own_identity() -> None:
    """No log position, no leases: only who it is, what it takes, and how many follow it."""
    behind = Behind("a")

    for _ in range(2):
        answer = behind.service.get_node(GetNodeRequest())

    assert answer.node == Node(
        node_id="proxy", incarnation=7, followers=3, limits=Limits(hashes=MOST_HASHES)
    )


def test_it_lists_the_namespaces_of_all_nodes_once() -> None:
    """By name; what two nodes describe alike is one."""
    behind = Behind("a", "b")
    behind.hears("a")
    behind.hears("b")
    behind.index.apply(behind.scripts["b"].namespace(OTHER))

    answer = behind.service.list_namespaces(ListNamespacesRequest())

    assert list(answer.namespaces) == [OTHER, NAMESPACE]


@pytest.mark.parametrize("name", sorted(set(METHODS) - READS))
async def test_what_changes_anything_is_refused_with_where_to_go(name: str) -> None:
    """UNIMPLEMENTED, and never an error of the server; the primary's address is named."""
    behind = Behind("a", "b")
    act: Any = getattr(behind.service, snake_case(name))

    async def call() -> None:
        await (act(None, None) if METHODS[name].server_streaming else act(None))

    with pytest.raises(KvtierError, match="host-0:7600") as error:
        await call()

    assert (error.value.code.name, error.value.reason) == (
        "UNIMPLEMENTED",
        Reason.PROXY_ONLY_READS,
    )
    assert error.value.metadata == {"primary": "host-0:7600"}


def test_every_call_of_the_service_is_there() -> None:
    """A new one has to be read or refused."""
    service = Behind("a").service

    assert [name for name in METHODS if not hasattr(service, snake_case(name))] == []
