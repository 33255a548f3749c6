"""Deleting a namespace removes its blocks everywhere, and the node forgets it."""

import pytest

from kvtier.client import (
    AbortedError,
    ExhaustedError,
    FailedPreconditionError,
    NotFoundError,
    Reason,
)
from kvtier.v1.result_pb2 import LeaseResult

from .conftest import Connect, Follow, Serve
from .folding import listed
from .following import following
from .support import (
    BLOCK_BYTES,
    blocks_of,
    cpu_tier,
    gpu_tier,
    hash_set,
    namespace,
    payloads,
    run,
    words,
)

OTHER = namespace("other")


async def test_its_blocks_are_gone_from_every_tier(serve: Serve, follow: Follow) -> None:
    """Each tier that held some is told as cleared of it; other namespaces stay as they are."""
    node = await serve(gpu_tier(4), cpu_tier(4))
    other = await node.client.register_namespace(OTHER)
    for tier in ("gpu0", "cpu0"):
        await node.store("A", "B", tier=tier)
        await node.client.store(tier, other, [run("A")], payloads("A"))
    follower = await follow(node)

    answer = await node.client.delete_namespace(other)

    assert (answer.removed_blocks, answer.ended_leases) == (2, 0)
    news = await follower.batches()
    assert [(c.tier, c.namespace) for batch in news for c in batch.cleared] == [
        ("gpu0", other),
        ("cpu0", other),
    ]
    assert follower.fold.view == await listed(node.client)
    assert [each.name for each in await node.client.list_namespaces()] == ["llama"]
    assert await node.load("A", "B") == payloads("A", "B")


async def test_deleting_again_finds_nothing(serve: Serve) -> None:
    """The second call is NOT_FOUND, and so is every other call about it."""
    node = await serve(cpu_tier(2))
    other = await node.client.register_namespace(OTHER)
    await node.client.delete_namespace(other)

    with pytest.raises(NotFoundError) as refused:
        await node.client.delete_namespace(other)
    with pytest.raises(NotFoundError):
        await node.client.lookup(other, [blocks_of("A")])

    assert refused.value.reason == Reason.NAMESPACE_UNKNOWN
    assert [each.name for each in await node.client.list_namespaces()] == ["llama"]


@pytest.mark.parametrize("how", ["lease", "pin"])
async def test_it_stops_at_leases_and_pins(serve: Serve, follow: Follow, how: str) -> None:
    """Without force nothing changes anywhere; with force slots are freed with their last lease."""
    node = await serve(gpu_tier(2), cpu_tier(2))
    for tier in ("gpu0", "cpu0"):
        await node.store("A", tier=tier)
    held = await (
        node.client.pin("cpu0", node.namespace, [blocks_of("A")])
        if how == "pin"
        else node.client.prepare_load("cpu0", node.namespace, [blocks_of("A")])
    )
    writer = await node.client.prepare_store("gpu0", node.namespace, [run("B")])
    follower = await follow(node)
    before = await node.state("gpu0"), await node.state("cpu0")

    with pytest.raises(FailedPreconditionError) as refused:
        await node.client.delete_namespace(node.namespace)
    unchanged = await node.state("gpu0"), await node.state("cpu0")
    told = await follower.news()
    answer = await node.client.delete_namespace(node.namespace, force=True)

    assert refused.value.reason == Reason.BLOCKS_LEASED
    assert unchanged == before
    assert told == []
    assert (answer.removed_blocks, answer.ended_leases) == (2, 1)
    assert await node.gauges("gpu0") == {}
    assert await node.gauges("cpu0") == {"draining": 1}
    with pytest.raises(AbortedError):
        await node.client.complete_store(writer.lease)
    if how == "lease":
        read = await node.client.read_blocks(held.lease, [BLOCK_BYTES])
        assert list(read.payloads) == payloads("A")
    released = await node.client.release_leases([held.lease])
    assert words(LeaseResult, released.results) == ["OK"]
    assert await node.gauges("cpu0") == {}


async def test_its_room_and_its_name_are_free(serve: Serve) -> None:
    """Where no further namespace fits, one fits again, also of the same name and other content."""
    node = await serve(cpu_tier(2), limits={"namespaces": 2})
    other = await node.client.register_namespace(OTHER)
    with pytest.raises(ExhaustedError):
        await node.client.register_namespace(namespace("third"))

    await node.client.delete_namespace(other)
    changed = await node.client.register_namespace(namespace("other", revision="r2"))

    assert changed != other
    await node.client.store("cpu0", changed, [run("A")], payloads("A"))
    report = await node.client.load("cpu0", changed, [blocks_of("A")])
    assert list(report.payloads) == payloads("A")


async def test_slots_keep_their_size(serve: Serve) -> None:
    """The first namespace fixes it for the life of the node, also when it is deleted."""
    node = await serve({"name": "cpu0", "medium": "cpu", "capacity": 4 * BLOCK_BYTES})

    await node.client.delete_namespace(node.namespace)
    await node.client.register_namespace(namespace("large", block_bytes=[2 * BLOCK_BYTES]))

    assert (await node.tier()).slot_bytes == BLOCK_BYTES


async def test_registered_anew_it_starts_empty_and_is_told_again(
    serve: Serve, connect: Connect
) -> None:
    """It is described before its new blocks come, and what still drains is no part of it."""
    node = await serve(cpu_tier(4))
    await node.store("A", "B")
    held = await node.client.prepare_load("cpu0", node.namespace, [blocks_of("A")])
    async with following(node.endpoint) as early:
        await node.client.delete_namespace(node.namespace, force=True)
        await connect(node)
        found = await node.look_up("A", "B")
        await node.store("A", "C")
        cleared = await node.client.clear("cpu0", node.namespace)
        await node.store("C")
        await early.settle(node.client)
        async with following(node.endpoint, namespaces=[node.namespace]) as late:
            views = early.fold.view, late.fold.view

    assert found == ["MISS", "MISS"]
    assert cleared.removed_blocks == 2
    assert early.kinds.count("namespace") == 2
    assert views == (await listed(node.client),) * 2
    assert await node.held() == hash_set("C")
    assert await node.gauges() == {"ready": 1, "draining": 1}
    await node.client.complete_load(held.lease)
    assert await node.gauges() == {"ready": 1}


async def test_a_follower_that_resumes_is_told_what_the_log_still_names(serve: Serve) -> None:
    """It was away while a namespace came, was used and was deleted, and follows nevertheless."""
    node = await serve(cpu_tier(4))
    await node.store("A")
    async with following(node.endpoint) as before:
        await before.settle(node.client)
        fold = before.fold
    other = await node.client.register_namespace(OTHER)
    await node.client.store("cpu0", other, [run("B")], payloads("B"))
    await node.client.delete_namespace(other)
    await node.store("C", after="A")

    async with following(node.endpoint, fold=fold) as resumed, following(node.endpoint) as fresh:
        await resumed.settle(node.client)
        described = {m.namespace.name for m in fresh.messages if m.HasField("namespace")}

        assert "reset" not in resumed.kinds
        assert resumed.fold.view == fresh.fold.view == await listed(node.client)
        assert described == {"llama"}


async def test_the_client_that_deletes_a_namespace_forgets_it(
    serve: Serve, connect: Connect
) -> None:
    """It does not register it again behind its user's back; another client that uses it does."""
    node = await serve(cpu_tier(2))
    other = await connect(node)
    await node.client.delete_namespace(node.namespace)

    with pytest.raises(NotFoundError):
        await node.client.lookup(node.namespace, [blocks_of("A")])
    known = await node.client.list_namespaces()
    await other.lookup(node.namespace, [blocks_of("A")])

    assert known == []
    assert [each.name for each in await node.client.list_namespaces()] == ["llama"]


async def test_a_client_that_was_refused_remembers(serve: Serve) -> None:
    """A deletion that changed nothing leaves the client as it was: it mends a restart."""
    node = await serve(cpu_tier(2))
    await node.store("A")
    pin = await node.client.pin("cpu0", node.namespace, [blocks_of("A")])
    with pytest.raises(FailedPreconditionError):
        await node.client.delete_namespace(node.namespace)
    await node.client.unpin([pin.lease])
    info = node.node.registry.get(node.namespace)
    await node.client.clear("cpu0")
    node.node.forget(info)

    await node.store("B")

    assert await node.load("B") == payloads("B")
