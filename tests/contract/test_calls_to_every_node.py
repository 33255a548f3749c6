"""Calls that go to the primary and every secondary at once."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from kvtier.client import InvalidArgumentError, KvtierError, NotFoundError, UnavailableError
from kvtier.client.proxy.fan_out import FanOut, TiersCleared

from .conftest import Serve
from .managed import Managed, call_down, managing
from .support import blocks_of, cpu_tier, gpu_tier, hash_set


@pytest.fixture(name="three")
async def _three(serve: Serve) -> AsyncIterator[Managed]:
    """Three nodes, each with a tier of two blocks in host memory and one of GPU memory."""
    nodes = [await serve(gpu_tier(2), cpu_tier(2)) for _ in range(3)]
    async with managing(nodes) as managed:
        yield managed


async def test_a_touch_reaches_every_node(three: Managed) -> None:
    """On each it decides what goes next."""
    for node in three.nodes:
        await node.store(1)
        await node.store(2)

    touched = await three.managing.everybody.touch(three.namespace, [blocks_of(1)])
    for node in three.nodes:
        await node.store(3)

    assert touched.complete
    assert touched.endpoints == tuple(node.endpoint for node in three.nodes)
    for node in three.nodes:
        assert await node.held() == hash_set([1, 3])


async def test_a_delete_reaches_every_node(three: Managed) -> None:
    """And every tier."""
    for node in three.nodes:
        await node.store(1)
        await node.store(1, tier="gpu0")

    deleted = await three.managing.everybody.delete(three.namespace, [blocks_of(1)])

    assert deleted.complete
    for node in three.nodes:
        assert await node.held() == await node.held("gpu0") == set()


async def test_one_that_is_down_is_not_asked(three: Managed) -> None:
    """It is told as unavailable, in its place, and the others do it."""
    call_down(three.secondaries[0], "the cable is out")
    for node in three.nodes:
        await node.store(1)

    deleted = await three.managing.everybody.delete(three.namespace, [blocks_of(1)])

    assert not deleted.complete
    assert [isinstance(answer, KvtierError) for answer in deleted] == [False, True, False]
    failure = deleted.failed[three.nodes[1].endpoint]
    assert isinstance(failure, UnavailableError)
    assert "the cable is out" in str(failure)
    assert [len(await node.held()) for node in three.nodes] == [0, 1, 0]


async def test_a_clear_empties_every_tier(three: Managed) -> None:
    """A tier that refuses shows as a failure in part; the other tiers there are cleared."""
    for node in three.nodes:
        await node.store(1)
        await node.store(2, tier="gpu0")
    pinned = await three.nodes[2].client.prepare_load("cpu0", three.namespace, [blocks_of(1)])

    cleared = await three.managing.everybody.clear()

    assert list(cleared.failed) == [three.nodes[2].endpoint]
    assert isinstance(cleared[2], TiersCleared)
    assert isinstance(cleared[2].tiers["cpu0"], KvtierError)
    assert [len(await node.held()) for node in three.nodes] == [0, 0, 1]
    assert [len(await node.held("gpu0")) for node in three.nodes] == [0, 0, 0]
    await three.nodes[2].client.complete_load(pinned.lease)


async def test_a_clear_of_the_primary_leaves_the_secondaries_alone(three: Managed) -> None:
    """What they hold is still there, and still loads through the primary."""
    await three.store(1, wait=True)

    cleared = await three.managing.everybody.clear({three.nodes[0].node.node_id: ["cpu0"]})
    await three.settle()

    assert cleared.endpoints == (three.nodes[0].endpoint,)
    assert [len(await node.held()) for node in three.nodes] == [0, 1, 1]
    assert await three.prepare(1) == ["HIT"]


async def test_a_clear_names_members_only(three: Managed) -> None:
    """An unknown one clears nothing."""
    await three.nodes[0].store(1)

    with pytest.raises(InvalidArgumentError, match="no member's"):
        await three.managing.everybody.clear(
            {three.nodes[0].endpoint: ["cpu0"], "nobody": ["cpu0"]}
        )

    assert await three.nodes[0].held() == hash_set([1])


ABOUT_A_NAMESPACE: dict[str, Callable[[Managed], Awaitable[FanOut[Any]]]] = {
    "touch": lambda m: m.managing.everybody.touch(m.namespace, [blocks_of(1)]),
    "delete": lambda m: m.managing.everybody.delete(m.namespace, [blocks_of(1)]),
    "clear": lambda m: m.managing.everybody.clear(namespace=m.namespace),
}


@pytest.mark.parametrize("name", ABOUT_A_NAMESPACE)
async def test_who_does_not_know_the_namespace_fails_at_nothing(serve: Serve, name: str) -> None:
    """It has nothing of it; its answer still says so. When nobody knows it, that is a failure."""
    call = ABOUT_A_NAMESPACE[name]
    nodes = [await serve(cpu_tier(2)), await serve(cpu_tier(2), register=False)]
    async with managing(nodes) as managed:
        await nodes[0].store(1)
        known_to_one = await call(managed)
        await nodes[0].client.delete_namespace(managed.namespace, force=True)
        known_to_none = await call(managed)

    assert known_to_one.complete
    answer = known_to_one[1]
    told = answer.failure if isinstance(answer, TiersCleared) else answer
    assert isinstance(told, NotFoundError)
    assert not known_to_none.complete
    assert list(known_to_none.failed) == [node.endpoint for node in nodes]
