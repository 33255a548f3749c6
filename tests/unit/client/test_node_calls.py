"""Calls to a node: repeats, remembered namespaces, leases and pages."""

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest

from kvtier.client import DeadlineError, KvtierError, NodeClient, NotFoundError, UnavailableError
from kvtier.v1.listing_pb2 import (
    ListBlocksRequest,
    ListBlocksResponse,
)
from kvtier.v1.lookup_pb2 import LookupBlocksResponse
from kvtier.v1.tier_pb2 import Block
from kvtier.v1.tier_service_pb2 import (
    GetNodeResponse,
    PrepareStoreResponse,
    RegisterNamespaceResponse,
)
from kvtier.wire.errors import Reason, not_found, unavailable

from .fakes import FakeNode, fail
from .messages import FINGERPRINT, NAMESPACE, block_run, block_set

AWAY = unavailable("just a moment", Reason.DRAINING)
FORGOTTEN = not_found("no such namespace", Reason.NAMESPACE_UNKNOWN)


def _registered(_: Any) -> RegisterNamespaceResponse:
    return RegisterNamespaceResponse(fingerprint=FINGERPRINT)


async def test_a_read_is_repeated_while_the_node_is_away(
    node: FakeNode, client: NodeClient
) -> None:
    """Two failures of a moment are not seen by the caller."""
    answer = GetNodeResponse()
    answer.node.node_id = "n"
    node.on("GetNode", fail(AWAY), fail(AWAY), lambda _: answer)

    found = await client.get_node()

    assert found.node_id == "n"
    assert node.names() == ["GetNode"] * 3


async def test_a_repeated_prepare_has_the_same_lease_id(node: FakeNode, client: NodeClient) -> None:
    """The node can tell that it is the same offer."""
    node.on("PrepareStore", fail(AWAY), lambda _: PrepareStoreResponse())

    await client.prepare_store("cpu0", FINGERPRINT, [block_run(1)])

    first, second = node.requests("PrepareStore")
    assert first == second
    assert len(first.lease_id) == 16


@pytest.mark.parametrize(
    ("method", "call"),
    [
        ("DeleteBlocks", lambda client: client.delete(FINGERPRINT, [block_set(1)])),
        ("ClearTier", lambda client: client.clear("cpu0")),
        ("TouchBlocks", lambda client: client.touch(FINGERPRINT, [block_set(1)])),
    ],
)
async def test_what_would_count_twice_is_not_repeated(
    node: FakeNode, client: NodeClient, method: str, call: Callable[[Any], Awaitable[Any]]
) -> None:
    """A failed change is told; whether to try again is for the caller to say."""
    node.on(method, fail(AWAY))

    with pytest.raises(UnavailableError):
        await call(client)

    assert node.names() == [method]


async def test_other_failures_are_not_repeated(node: FakeNode, client: NodeClient) -> None:
    """Only a node that is out of reach for a moment is asked again."""
    node.on("GetNode", fail(KvtierError(grpc.StatusCode.INTERNAL, Reason.INTERNAL, "bug")))

    with pytest.raises(KvtierError, match="bug"):
        await client.get_node()

    assert node.names() == ["GetNode"]


async def test_a_node_that_does_not_answer_ends_at_the_deadline(node: FakeNode) -> None:
    """A hung node costs the caller its timeout, and the error names the endpoint."""

    async def hang(_: Any) -> GetNodeResponse:
        await asyncio.Event().wait()
        raise AssertionError

    node.on("GetNode", hang)
    started = time.monotonic()

    async with NodeClient(node.endpoint, timeout=0.3) as client:
        with pytest.raises(DeadlineError, match=f"{node.endpoint} did not answer within 0.3 s"):
            await client.get_node()

    assert time.monotonic() - started < 3


async def test_a_forgotten_namespace_is_registered_again(
    node: FakeNode, client: NodeClient
) -> None:
    """A node that started anew is told the description, and the call goes through."""
    node.on("RegisterNamespace", _registered)
    node.on("LookupBlocks", fail(FORGOTTEN), lambda _: LookupBlocksResponse(tiers=["cpu0"]))
    namespace = await client.register_namespace(NAMESPACE)

    answer = await client.lookup(namespace, [block_set(1)])

    assert list(answer.tiers) == ["cpu0"]
    assert node.names() == [
        "RegisterNamespace",
        "LookupBlocks",
        "RegisterNamespace",
        "LookupBlocks",
    ]
    assert node.requests("RegisterNamespace")[1].namespace == NAMESPACE


async def test_a_namespace_is_registered_again_only_once_a_call(
    node: FakeNode, client: NodeClient
) -> None:
    """A node that keeps forgetting is not asked for ever."""
    node.on("RegisterNamespace", _registered)
    node.on("LookupBlocks", fail(FORGOTTEN))
    namespace = await client.register_namespace(NAMESPACE)

    with pytest.raises(NotFoundError, match="no such namespace"):
        await client.lookup(namespace, [block_set(1)])

    assert node.names().count("LookupBlocks") == 2


async def test_a_namespace_of_another_is_not_registered(node: FakeNode, client: NodeClient) -> None:
    """What this client never registered it cannot describe."""
    node.on("LookupBlocks", fail(FORGOTTEN))

    with pytest.raises(NotFoundError):
        await client.lookup(FINGERPRINT, [block_set(1)])

    assert node.names() == ["LookupBlocks"]


async def test_changing_a_registered_description_changes_nothing(
    node: FakeNode, client: NodeClient
) -> None:
    """What is registered again is what was registered, whatever the caller did to it since."""
    node.on("RegisterNamespace", _registered)
    node.on("LookupBlocks", fail(FORGOTTEN), lambda _: LookupBlocksResponse())
    mine = type(NAMESPACE).FromString(NAMESPACE.SerializeToString())
    namespace = await client.register_namespace(mine)
    mine.name = "changed"

    await client.lookup(namespace, [block_set(1)])

    assert node.requests("RegisterNamespace")[1].namespace == NAMESPACE


async def test_lease_ids_are_random_unless_given(node: FakeNode, client: NodeClient) -> None:
    """Each offer has an id of its own; a caller's own id is sent as it is."""
    for lease_id in (None, None, b"mine" * 4):
        await client.prepare_store("cpu0", FINGERPRINT, [block_run(1)], lease_id=lease_id)

    ids = [request.lease_id for request in node.requests("PrepareStore")]
    assert len(set(ids)) == 3
    assert {len(each) for each in ids} == {16}
    assert ids[2] == b"mine" * 4


async def test_lease_ids_come_from_the_given_source(node: FakeNode) -> None:
    """Randomness can be replaced."""
    async with NodeClient(node.endpoint, random_bytes=lambda count: b"r" * count) as client:
        await client.prepare_load("cpu0", FINGERPRINT, [block_set(1)])

    assert node.requests("PrepareLoad")[0].lease_id == b"r" * 16


async def test_an_owner_tells_host_process_and_client_apart(node: FakeNode) -> None:
    """Two clients of one process hold their leases under different names."""
    async with NodeClient(node.endpoint) as one, NodeClient(node.endpoint) as two:
        await one.prepare_store("cpu0", FINGERPRINT, [block_run(1)])

        assert one.owner.startswith(f"{socket.gethostname()}:{os.getpid()}:")
        assert one.owner != two.owner
        assert node.requests("PrepareStore")[0].owner == one.owner

    async with NodeClient(node.endpoint, owner="engine-3") as named:
        assert named.owner == "engine-3"


async def test_a_listing_goes_on_from_page_to_page(node: FakeNode, client: NodeClient) -> None:
    """Every block of every page comes, also behind an empty page; the filter is kept."""

    def page(token: bytes, *hashes: bytes) -> Callable[[Any], ListBlocksResponse]:
        blocks = [Block(block_hash=each) for each in hashes]
        return lambda _: ListBlocksResponse(blocks=blocks, next_page_token=token)

    node.on("ListBlocks", page(b"1", b"a", b"b"), page(b"2"), page(b"", b"c"))

    listed = [
        block.block_hash
        async for block in client.list_blocks(tiers=["cpu0"], scope=b"", group=0, page_size=2)
    ]

    asked = node.requests("ListBlocks")
    assert listed == [b"a", b"b", b"c"]
    assert [request.page_token for request in asked] == [b"", b"1", b"2"]
    for request in asked:
        expected = ListBlocksRequest(tiers=["cpu0"], scope=b"", group=0, page_size=2)
        expected.page_token = request.page_token
        assert request == expected


async def test_a_listing_without_a_filter_leaves_it_unset(
    node: FakeNode, client: NodeClient
) -> None:
    """No group and no scope is not group 0 and the empty scope."""
    assert [block async for block in client.list_blocks()] == []

    (request,) = node.requests("ListBlocks")
    assert not request.HasField("group")
    assert not request.HasField("scope")


async def test_a_listing_that_is_left_early_asks_for_no_more(
    node: FakeNode, client: NodeClient
) -> None:
    """Pages are fetched as they are read."""
    full = ListBlocksResponse(blocks=[Block()] * 3, next_page_token=b"more")
    node.on("ListBlocks", lambda _: full)

    async for _ in client.list_blocks():
        break

    assert node.names() == ["ListBlocks"]
