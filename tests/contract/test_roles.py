"""What readers, writers and admins may call, and in which namespaces."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from google.protobuf.message import Message
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.reflection_pb2_grpc import ServerReflectionStub

from kvtier.server.security.names import NodeNames
from kvtier.server.security.rules import RULES
from kvtier.server.security.scopes import ActsOnAllError
from kvtier.server.services.transfer_service import PARSERS
from kvtier.v1.event_service_pb2 import WatchEventsRequest
from kvtier.v1.lease_stream_pb2 import LeaseBlocksRequest, LeaseCall
from kvtier.v1.listing_pb2 import ListBlocksRequest
from kvtier.v1.lookup_pb2 import LookupBlocksRequest
from kvtier.v1.removal_pb2 import ClearTierRequest
from kvtier.v1.tier_service_pb2 import (
    PrepareStoreRequest,
    RegisterNamespaceRequest,
    ReleaseLeasesRequest,
)
from kvtier.v1.transfer_service_pb2 import MapTierRequest, WriteBlocksRequest
from kvtier.wire.errors import Reason
from kvtier.wire.namespaces import fingerprint
from tests.waiting import until

from .conftest import Serve
from .good_requests import GOOD, written
from .proxies import ServeProxy, serve_proxy
from .scene import Scene, serve_scene
from .secured import Watching, grant, outcome, secure_wire, token_auth, watching
from .support import Serving, blocks_of, namespace, run
from .wire import METHODS

__all__ = ["serve_proxy"]

READERS = {
    "EventService.WatchEvents",
    "TierService.GetNode",
    "TierService.ListTiers",
    "TierService.ListNamespaces",
    "TierService.LookupBlocks",
    "TierService.ListBlocks",
    "TierService.DescribeBlock",
}
ADMINS = {
    "NodeService.Drain",
    "TierService.RegisterNamespace",
    "TierService.DeleteNamespace",
    "TierService.CopyBlocks",
    "TierService.DeleteBlocks",
    "TierService.ClearTier",
}
ROLES = {"reader": READERS, "writer": set(METHODS) - ADMINS, "admin": set(METHODS)}
# For these an answer is the same for whoever may ask at all.
FOR_ALL = {"TierService.GetNode", "TierService.ListTiers", "TierService.ListNamespaces"}

LLAMA, MISTRAL = namespace("llama"), namespace("mistral")


@pytest.mark.parametrize("role", ROLES)
async def test_a_role_may_call_its_rpcs_and_no_others(
    serve: Serve, tmp_path: Path, role: str
) -> None:
    """One that is denied does not get so far that its request is looked at."""
    auth = token_auth(tmp_path, "caller", grants=[grant("token:caller", role)])
    node = await serve(register=False, auth=auth)
    async with secure_wire(node.endpoint, token="caller") as wire:
        for rpc, method in METHODS.items():
            answer = await wire.call(method, b"\xff\xff")

            expected = "INVALID_ARGUMENT" if rpc in ROLES[role] else "PERMISSION_DENIED"
            assert answer.code == expected, rpc
            if answer.error and rpc not in ROLES[role]:
                assert answer.error.reason == Reason.NOT_ALLOWED
                assert "auth.grants" in answer.error.message


async def test_a_proxy_has_roles_too(serve: Serve, serve_proxy: ServeProxy, tmp_path: Path) -> None:
    """Its own: what it does not do itself is denied to whoever may not do it."""
    behind = await serve()
    auth = token_auth(tmp_path, "caller", grants=[grant("token:caller", "reader")])
    proxy = await serve_proxy(behind.endpoint, auth=auth)
    async with secure_wire(proxy.address, token="caller") as wire:
        assert await outcome(wire, "TierService.ListTiers", b"") == "OK"
        assert await outcome(wire, "TierService.PrepareStore", b"") == "PERMISSION_DENIED"
        assert await outcome(wire, "TransferService.WriteBlocks", b"") == "PERMISSION_DENIED"


def names_of(scene: Scene, rpc: str) -> Iterator[list[str] | None]:
    """The namespaces that each good request of an RPC is about; None for all."""
    method = METHODS[rpc]
    for messages in GOOD[rpc](scene):
        for message in messages:
            parse = PARSERS.get(method.input_type.full_name, type(message).FromString)
            request = parse(message.SerializeToString())
            try:
                yield list(RULES[method.full_name].scope(request, NodeNames(scene.node.node)))
            except ActsOnAllError:
                yield None


async def test_every_good_request_is_about_its_namespace(serve: Serve) -> None:
    """By name, by lease, or on a stream; what is about all of them is told as such."""
    scene = await serve_scene(serve)
    acts_on_all = set()
    for rpc in METHODS:
        for names in names_of(scene, rpc):
            if names is None:
                acts_on_all.add(rpc)
            elif rpc in FOR_ALL:
                assert names == [], rpc
            else:
                assert set(names) <= {"everything"}, rpc
        told = [names for names in names_of(scene, rpc) if names]
        assert told or rpc in FOR_ALL | acts_on_all, rpc
    assert acts_on_all == {
        "NodeService.Drain",
        "TransferService.MapTier",
        # All leases of an owner are.
        "TierService.ReleaseLeases",
        "TierService.UnpinBlocks",
        "TransferService.LeaseBlocks",
        # The second page of a listing without a filter is.
        "TierService.ListBlocks",
    }


@pytest.fixture
async def limited(serve: Serve, tmp_path: Path) -> Serving:
    """A node of two namespaces, with a caller who may do everything in one of them."""
    grants = [grant("token:caller", "admin", "lla*"), grant("token:ops", "admin")]
    node = await serve(register=False, auth=token_auth(tmp_path, "caller", "ops", grants=grants))
    for each in (LLAMA, MISTRAL):
        node.node.register(each)
    return node


def stored(description: Any, **fields: Any) -> PrepareStoreRequest:
    return PrepareStoreRequest(
        tier="cpu0",
        namespace=fingerprint(description),
        runs=[run(1)],
        lease_id=b"0123456789abcdef",
        owner="engine",
        **fields,
    )


def requests(description: Any) -> dict[str, Message]:
    """A request about a namespace, of each form of call."""
    named: dict[str, Any] = {"namespace": fingerprint(description)}
    return {
        "TierService.RegisterNamespace": RegisterNamespaceRequest(namespace=description),
        "TierService.LookupBlocks": LookupBlocksRequest(**named, chains=[blocks_of(1)]),
        "TierService.ListBlocks": ListBlocksRequest(**named),
        "TierService.ClearTier": ClearTierRequest(tier="cpu0", **named),
        "TransferService.LeaseBlocks": LeaseBlocksRequest(
            calls=[LeaseCall(number=1, prepare_store=stored(description))]
        ),
        "TransferService.WriteBlocks": WriteBlocksRequest(offer=stored(description)),
        "EventService.WatchEvents": WatchEventsRequest(namespaces=[named["namespace"]]),
    }


@pytest.mark.parametrize("rpc", requests(LLAMA))
async def test_a_grant_ends_at_its_namespaces(limited: Serving, rpc: str) -> None:
    """In one of another the same call is denied before it does anything."""
    head = limited.node.log.head
    async with secure_wire(limited.endpoint, token="caller") as wire:
        denied = await wire.call(METHODS[rpc], requests(MISTRAL)[rpc])
        leases = len(limited.node.leases)
        allowed = await outcome(wire, rpc, requests(LLAMA)[rpc], answers=1)

    assert denied.answers == []
    assert denied.error is not None
    assert (denied.code, denied.error.reason) == ("PERMISSION_DENIED", Reason.NOT_ALLOWED)
    assert "'mistral'" in denied.error.message
    assert "lla*" in denied.error.message
    assert (leases, limited.node.log.head) == (0, head)
    assert allowed == "OK"


async def test_a_name_of_a_megabyte_costs_no_time(serve: Serve, tmp_path: Path) -> None:
    """It is refused before it is compared with a pattern that would take hours."""
    grants = [grant("token:caller", "admin", "*-llama-*-prod-*-x")]
    node = await serve(register=False, auth=token_auth(tmp_path, "caller", grants=grants))
    description = namespace("-llama-" * 150_000)
    async with secure_wire(node.endpoint, token="caller") as wire:
        request = RegisterNamespaceRequest(namespace=description)

        told = await wire.call(METHODS["TierService.RegisterNamespace"], request)

    assert told.code == "INVALID_ARGUMENT"


async def test_every_message_of_a_stream_is_looked_at(limited: Serving) -> None:
    """A stream that began well is ended by the first message beyond the grant."""
    good, bad = (requests(each)["TransferService.LeaseBlocks"] for each in (LLAMA, MISTRAL))
    async with secure_wire(limited.endpoint, token="caller") as wire:
        told = await wire.call(METHODS["TransferService.LeaseBlocks"], good, bad)

    assert told.code == "PERMISSION_DENIED"


async def test_a_lease_is_of_its_namespace(limited: Serving) -> None:
    """Whoever learns of a lease elsewhere cannot end it."""
    foreign = stored(MISTRAL)
    async with (
        secure_wire(limited.endpoint, token="ops") as ops,
        secure_wire(limited.endpoint, token="caller") as caller,
    ):
        await ops.call(METHODS["TierService.PrepareStore"], foreign)
        (lease,) = limited.node.leases
        release = ReleaseLeasesRequest(leases=[lease.reference()])

        assert await outcome(caller, "TierService.ReleaseLeases", release) == "PERMISSION_DENIED"
        assert len(limited.node.leases) == 1
        assert await outcome(ops, "TierService.ReleaseLeases", release) == "OK"


@pytest.mark.parametrize(
    ("rpc", "request_", "instead"),
    [
        ("EventService.WatchEvents", WatchEventsRequest(), "set namespaces"),
        ("TierService.ClearTier", ClearTierRequest(tier="cpu0"), "set namespace"),
        ("TierService.ListBlocks", ListBlocksRequest(), "set namespace"),
        ("TierService.ReleaseLeases", ReleaseLeasesRequest(owner="engine"), "name leases"),
        ("TransferService.MapTier", MapTierRequest(tier="cpu0"), "use WriteBlocks"),
        ("NodeService.Drain", None, "all namespaces"),
    ],
)
async def test_what_acts_on_all_namespaces_is_not_for_some(
    limited: Serving, rpc: str, request_: Any, instead: str
) -> None:
    """It is refused with what can be done in its place; who may do it all may do it."""
    message = request_ or b""
    async with (
        secure_wire(limited.endpoint, token="caller") as caller,
        secure_wire(limited.endpoint, token="ops") as ops,
    ):
        denied = await caller.call(METHODS[rpc], message)
        allowed = await outcome(ops, rpc, message, answers=1)

    assert denied.code == "PERMISSION_DENIED"
    assert denied.error is not None
    assert instead in denied.error.message
    assert allowed == "OK"


@pytest.mark.parametrize("rpc", ["EventService.WatchEvents", "TierService.LookupBlocks"])
async def test_a_namespace_that_is_not_there_is_not_found(limited: Serving, rpc: str) -> None:
    """Nobody can tell whose it will be: a follower comes when it is registered."""
    async with secure_wire(limited.endpoint, token="caller") as caller:
        assert await outcome(caller, rpc, requests(namespace("llama-2"))[rpc]) == "NOT_FOUND"


async def test_a_follower_of_some_namespaces_sees_no_other(limited: Serving) -> None:
    """Only the names and descriptions of the others are for everybody."""
    prints = [fingerprint(each) for each in (LLAMA, MISTRAL)]
    async with (
        secure_wire(limited.endpoint, token="caller") as caller,
        secure_wire(limited.endpoint, token="ops") as ops,
        watching(caller, namespaces=prints[:1]) as follower,
    ):
        for each in (MISTRAL, LLAMA):
            offer = stored(each)
            offer.lease_id = fingerprint(each)[:16]
            written_ = WriteBlocksRequest(offer=offer, **written(1))
            assert await outcome(ops, "TransferService.WriteBlocks", written_) == "OK"
        await until(lambda: list(stored_in(follower)))
        names = {m.namespace.name for m in follower.messages if m.HasField("namespace")}

    assert set(stored_in(follower)) == {prints[0]}
    assert names == {"llama"}


def stored_in(follower: Watching) -> Iterator[bytes]:
    """The namespaces of the blocks that a follower heard of."""
    for message in follower.messages:
        for batch in message.batches.batches:
            for each in batch.stored:
                yield each.namespace


@pytest.mark.parametrize("token", [None, "caller"])
async def test_reflection_is_off_unless_it_is_wanted(
    serve: Serve, tmp_path: Path, token: str | None
) -> None:
    """And then it is for those who are known, where callers must be."""
    auth = {"auth": token_auth(tmp_path, "caller")} if token else {}
    off = await serve(register=False, **auth)
    on = await serve(register=False, reflection=True, **auth)

    assert await services_told(off, token) == "UNIMPLEMENTED"
    told = await services_told(on, token)
    assert {each.rpartition(".")[2] for each in told} == {
        "EventService",
        "TierService",
        "TransferService",
        "NodeService",
        "Health",
        "ServerReflection",
    }
    if token:
        assert await services_told(on, None) == "UNAUTHENTICATED"


async def services_told(node: Serving, token: str | None) -> Any:
    """The services that a server tells of by reflection, or the code that it refuses with."""
    metadata = [("authorization", f"Bearer {token}")] if token else []
    question = reflection_pb2.ServerReflectionRequest(list_services="")
    async with grpc.aio.insecure_channel(node.endpoint) as channel:
        stub: Any = ServerReflectionStub(channel)
        try:
            (answer,) = [
                each
                async for each in stub.ServerReflectionInfo(
                    iter([question]), metadata=metadata, timeout=10
                )
            ]
        except grpc.aio.AioRpcError as error:
            return error.code().name
        return [each.name for each in answer.list_services_response.service]
