"""Nodes that share a block, an id or the name of a namespace are never taken for each other."""

import logging
from pathlib import Path

import pytest

from kvtier.client import FailedPreconditionError
from kvtier.client.proxy.settings import CascadeSettings
from kvtier.v1.event_service_pb2 import SourceState
from kvtier.v1.namespace_pb2 import Namespace
from kvtier.v1.result_pb2 import LookupResult
from tests.waiting import until

from .conftest import Serve
from .proxied import Proxied, copied, proxied
from .support import (
    BLOCK_BYTES,
    blocks_of,
    cpu_tier,
    hash_set,
    namespace,
    payload,
    payloads,
    run,
    words,
)

LOGGER = "kvtier.client.proxy"


async def test_one_block_on_two_nodes_is_two_copies(serve: Serve) -> None:
    """One node that drops it, or leaves, takes its own copy along and no other."""
    nodes = [await serve(cpu_tier(8)) for _ in range(3)]
    async with proxied(nodes) as whole:
        for node in nodes[1:]:
            await node.store("same")
        await whole.settle()

        await nodes[1].client.delete(whole.namespace, [blocks_of("same")])
        await whole.settle()
        deleted = await whole.find("same")
        await nodes[1].store("same")
        await whole.settle()
        await whole.proxy.members.remove(whole.proxy.members.secondaries[0])
        removed = await whole.find("same")

        assert deleted.sources == (2,)
        assert removed.sources == (1,)
        assert removed.endpoints == (nodes[0].endpoint, nodes[2].endpoint)
        assert await whole.load("same") == payloads("same")


async def test_a_node_that_says_anothers_id_is_left_out(serve: Serve, tmp_path: Path) -> None:
    """It is told apart by its address; the other keeps its blocks, whatever the second one does."""
    near, one = await serve(cpu_tier(8)), await serve(cpu_tier(8))
    elsewhere = str(tmp_path)
    two = await serve(cpu_tier(8, shm_dir=elsewhere), node_id=one.node.node_id)
    await one.store("same", "one")
    await two.store("same", "two")
    async with proxied([near, one]) as whole:
        member = await whole.proxy.members.add(two.client)
        await until(lambda: member.state() == SourceState.SOURCE_STATE_DOWN)
        await two.client.delete(two.namespace, [blocks_of("same")])
        await two.store("more")
        await one.store("last")
        await whole.settle()

        assert member.node_ids == []
        assert one.endpoint in member.reason()
        assert two.endpoint in member.reason()
        assert whole.known(one) == await one.held() == hash_set(["same", "one", "last"])
        assert await whole.look_up("same", "two", "more") == ["HIT", "MISS", "MISS"]
        assert await whole.load("same") == payloads("same")
        assert await one.held() == hash_set(["same", "one", "last"])


async def test_nothing_of_a_removed_node_comes_again(serve: Serve) -> None:
    """However much it has just told and goes on to tell."""
    near, gone = await serve(cpu_tier(8)), await serve(cpu_tier(4096))
    async with proxied([near, gone]) as whole:
        proxy, name = whole.proxy, gone.node.node_id
        for first in range(0, 4000, 50):
            await gone.store(*range(first, first + 50))

        await proxy.members.remove(proxy.members.secondaries[0])

        assert proxy.index.nodes() == [near.node.node_id]
        for step in range(20):
            await gone.store(("later", step))
            await near.store(("near", step))
            await whole.view.settle(near.client)
            assert proxy.index.blocks(name, "cpu0") == set()
            assert await whole.look_up(0, ("later", step)) == ["MISS", "MISS"]
        told = [m.state.source for m in whole.view.messages if m.node_id == name]
        assert told[-1] == SourceState.SOURCE_STATE_REMOVED


SMALL = namespace("shared", tokens_per_block=16, block_bytes=[BLOCK_BYTES])
LARGE = namespace("shared", tokens_per_block=32, block_bytes=[BLOCK_BYTES // 2])


async def put(whole: Proxied, number: int, described: Namespace, *blocks: object) -> bytes:
    """Register a namespace at a node and store blocks of it; return its fingerprint."""
    client = whole.nodes[number].client
    fingerprint = await client.register_namespace(described)
    size = described.block_bytes[0]
    data = [payload((described.tokens_per_block, block), size) for block in blocks]
    await client.store("cpu0", fingerprint, [run(*blocks)], data)
    await whole.settle()
    return fingerprint


async def found(whole: Proxied, fingerprint: bytes, *blocks: object) -> list[str]:
    """What the index alone says of blocks: the primary knows one of the two namespaces only."""
    (answer,) = await whole.proxy.lookup(fingerprint, [blocks_of(*blocks)], hint=True)
    return words(LookupResult, answer.results)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name == LOGGER]


async def test_namespaces_of_one_name_and_other_content_are_kept_apart(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    """Each node's blocks are found under its own description; the log says it once, with both."""
    caplog.set_level(logging.WARNING, LOGGER)
    nodes = [await serve(cpu_tier(8)) for _ in range(3)]
    async with proxied(nodes, cascades=CascadeSettings(to="none")) as whole:
        small = await put(whole, 0, SMALL, "a", "both")
        large = await put(whole, 1, LARGE, "b", "both")
        await put(whole, 2, LARGE, "c")
        for node in nodes:
            await node.store("more")
        await whole.settle()

        assert small != large
        assert await found(whole, small, "a", "both", "b", "c") == ["HIT", "HIT", "MISS", "MISS"]
        assert await found(whole, large, "a", "both", "b", "c") == ["MISS", "HIT", "HIT", "HIT"]
        (told,) = warnings(caplog)
        assert "'shared'" in told
        assert "tokens_per_block is 16 at" in told
        assert f"32 at {nodes[1].node.node_id}" in told
        with pytest.raises(FailedPreconditionError, match="tokens_per_block is 16 here, 32 there"):
            await whole.proxy.load("cpu0", large, [run("b")])
        await whole.are_known()


@pytest.mark.parametrize(
    ("theirs", "ours", "why"),
    [
        (LARGE, SMALL, "tokens_per_block is 32 here, 16 there"),
        (None, namespace("huge", block_bytes=[2 * BLOCK_BYTES]), "set slot_bytes of that tier"),
    ],
    ids=["described otherwise", "too large"],
)
async def test_a_secondary_that_cannot_take_a_namespace_is_sent_every_other(
    serve: Serve, theirs: Namespace | None, ours: Namespace, why: str
) -> None:
    """The store's outcome says why; stores of other namespaces go there as ever."""
    nodes = [await serve(cpu_tier(8, slot_bytes=2 * BLOCK_BYTES)), await serve(cpu_tier(8))]
    settings = CascadeSettings(catch_up=True, pause=60.0)
    async with proxied(nodes, cascades=settings) as whole:
        fingerprint = await nodes[0].client.register_namespace(ours)
        if theirs is not None:
            await nodes[1].client.register_namespace(theirs)

        stored = await whole.proxy.store(
            "cpu0", fingerprint, [run("a")], [payload("a", ours.block_bytes[0])], wait=True
        )
        (refused,) = await stored.cascade.wait()
        (other,) = await copied(await whole.store("b"))

        assert isinstance(refused.error, FailedPreconditionError)
        assert why in str(refused.error)
        assert other == ["COPIED"]
        assert await nodes[1].held() == hash_set(["b"])
        assert whole.proxy.managing.cascades.counts()[nodes[1].endpoint].failed == 1
