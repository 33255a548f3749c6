"""What a follower asked to see is the same at a proxy and at the nodes."""

from typing import TYPE_CHECKING, Any

import grpc
import pytest

from kvtier.v1.block_pb2 import Medium
from kvtier.v1.event_service_pb2 import EventView
from kvtier.wire.errors import KvtierError

from .conftest import Serve
from .following import following
from .proxies import ServeProxy, following_proxy, serve_proxy
from .support import TOKENS, Serving, cpu_tier, gpu_tier, namespace, payloads, run

if TYPE_CHECKING:
    from .folding import Fold

__all__ = ["serve_proxy"]

QWEN = namespace("qwen", keep_token_ids=True)
WANTED: dict[str, dict[str, Any]] = {
    "all": {},
    "a tier": {"tiers": ["cpu0"]},
    "a medium": {"media": [Medium.MEDIUM_GPU]},
    "a namespace": {"namespaces": [b"n"]},
    "a namespace in a tier": {"namespaces": [b"n"], "tiers": ["gpu0"]},
    "nothing": {"tiers": ["cpu0"], "media": [Medium.MEDIUM_GPU]},
}
VIEWS = [EventView.EVENT_VIEW_BASIC, EventView.EVENT_VIEW_FULL]


async def churn(node: Serving, qwen: bytes, first: int) -> None:
    """Store blocks of two models in two tiers, with token ids where they are kept, and clear."""
    for step in range(first, first + 6):
        tier = "gpu0" if step % 2 else "cpu0"
        await node.store(step, tier=tier)
        tokens = list(range(step, step + TOKENS))
        await node.client.store(tier, qwen, [run(step, token_ids=tokens)], payloads(step))
    await node.client.clear("gpu0", namespace=node.namespace)


@pytest.mark.parametrize("view", VIEWS, ids=["basic", "full"])
@pytest.mark.parametrize("wanted", WANTED.values(), ids=WANTED.keys())
async def test_views_are_those_at_the_nodes(
    serve: Serve, serve_proxy: ServeProxy, wanted: dict[str, Any], view: EventView.ValueType
) -> None:
    """From a snapshot, live, and resumed: the same blocks, facts and token ids."""
    nodes = [await serve(gpu_tier(4), cpu_tier(8)) for _ in range(2)]
    clients = [node.client for node in nodes]
    for client in clients:
        qwen = await client.register_namespace(QWEN)
    request = {**wanted, "view": view}
    if "namespaces" in wanted:
        request["namespaces"] = [qwen]
    proxy = await serve_proxy(*[node.endpoint for node in nodes])
    folds: dict[str, Fold] = {}
    for turn in range(3):
        async with following_proxy(proxy.address, folds=folds, **request) as follower:
            for node in nodes:
                await churn(node, qwen, 10 * turn)
            await follower.settle(*clients)
        await churn(nodes[0], qwen, 10 * turn + 5)
    async with following_proxy(proxy.address, folds=folds, **request) as follower:
        await follower.settle(*clients)

    for node in nodes:
        async with following(node.endpoint, **request) as direct:
            await direct.settle(node.client)
        fold = folds[node.node.node_id]
        assert fold.view == direct.fold.view
        assert fold.tokens == direct.fold.tokens
        assert fold.resets == ["NO_POSITION"]


async def test_a_tier_that_only_one_node_has_passes_there(
    serve: Serve, serve_proxy: ServeProxy
) -> None:
    """The others are told as being in sync with nothing, when they join and when they resume."""
    nodes = [await serve(gpu_tier(4), cpu_tier(8)), await serve(cpu_tier(8))]
    clients = [node.client for node in nodes]
    proxy = await serve_proxy(*[node.endpoint for node in nodes])
    folds: dict[str, Fold] = {}
    for turn in range(2):
        async with following_proxy(proxy.address, folds=folds, tiers=["gpu0"]) as follower:
            await nodes[0].store(turn, tier="gpu0")
            await nodes[1].store(turn)
            await follower.settle(*clients)
        await nodes[1].store(10 + turn)

    assert {key.tier for key in folds[nodes[0].node.node_id].view} == {"gpu0"}
    assert folds[nodes[1].node.node_id].view == {}
    assert [fold.resets for fold in folds.values()] == [["NO_POSITION"], ["NO_POSITION"]]


REFUSED: dict[str, tuple[dict[str, Any], grpc.StatusCode]] = {
    "a tier that no node has": ({"tiers": ["fs9"]}, grpc.StatusCode.NOT_FOUND),
    "a medium that is none": ({"media": [99]}, grpc.StatusCode.INVALID_ARGUMENT),
    "a view that is none": ({"view": 99}, grpc.StatusCode.INVALID_ARGUMENT),
    "a short fingerprint": ({"namespaces": [b"short"]}, grpc.StatusCode.INVALID_ARGUMENT),
}


@pytest.mark.parametrize(("request_", "code"), REFUSED.values(), ids=REFUSED.keys())
async def test_what_makes_no_sense_is_refused(
    serve: Serve, serve_proxy: ServeProxy, request_: dict[str, Any], code: grpc.StatusCode
) -> None:
    """As at a node, before anything is sent."""
    node = await serve(cpu_tier(8))
    proxy = await serve_proxy(node.endpoint)
    async with following_proxy(proxy.address, **request_) as follower:
        with pytest.raises(KvtierError) as caught:
            await follower.until(lambda: False)

    assert caught.value.code is code
    assert follower.messages == []
